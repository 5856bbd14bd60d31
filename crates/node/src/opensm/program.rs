//! How opensm is started: the program, its files, its arguments.

use crate::{Error, install::write_atomically};
use ferroband_kernel::Root;
use ferroband_model::Guid;
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where distributions put it, besides the folders of `PATH`.
const FALLBACK_DIRS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/local/sbin", "/opt/ufm/opensm/sbin"];

/// opensm as it is on this machine, and the folder that is its own.
#[derive(Clone, Debug)]
pub struct OpensmProgram {
    name: PathBuf,
    folder: PathBuf,
    /// Variables that it gets besides ours.
    variables: Vec<(String, String)>,
}

impl OpensmProgram {
    /// `name` (a path, or a name to look for) with its files under `root`.
    pub fn new(root: &Root, name: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), folder: root.state("opensm"), variables: Vec::new() }
    }

    /// With a variable for it and for what is asked about it.
    pub fn with_env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// The partitions file. What stands outside of our marks in it is the administrator's.
    pub fn partitions_file(&self) -> PathBuf {
        self.folder.join("partitions.conf")
    }

    /// What it logs.
    pub fn log_file(&self) -> PathBuf {
        self.folder.join("opensm.log")
    }

    /// Its name as it was given.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// The file of the program, if it is there.
    pub fn find_executable(&self) -> Option<PathBuf> {
        self.find_tool(&self.name)
    }

    /// The file of another program of the same kind (`sminfo`).
    pub fn find_tool(&self, name: &Path) -> Option<PathBuf> {
        if name.components().count() > 1 {
            return Some(name.to_owned()).filter(|file| file.is_file());
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = env::split_paths(&path).chain(FALLBACK_DIRS.map(PathBuf::from));
        folders.map(|folder| folder.join(name)).find(|file| file.is_file())
    }

    /// Whether it programs the ports of virtual functions: those that do have an option for it, others never heard of it.
    pub fn supports_virtualization(&self) -> bool {
        let word = b"virt_enabled";
        let text = self.find_executable().and_then(|file| fs::read(file).ok()).unwrap_or_default();
        text.windows(word.len()).any(|window| window == word)
    }

    /// A command with its surroundings.
    pub fn command(&self, file: &Path) -> Command {
        let mut command = Command::new(file);
        command
            .current_dir(&self.folder)
            .env("OSM_TMP_DIR", &self.folder)
            // Which port has which LID: kept, so that nobody's changes when opensm is started anew.
            .env("OSM_CACHE_DIR", &self.folder)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// What tells our opensm from any other: the file that it reads.
    pub fn identifying_arguments(&self) -> [String; 2] {
        ["-P".to_owned(), self.partitions_file().display().to_string()]
    }

    /// The command that starts it on a port. Not as a daemon: it stays a child as long as we live, and nobody's afterwards.
    pub fn start_command(&self, port: Guid) -> Result<Command, Error> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::File { action: "make", path, source }
        };
        fs::create_dir_all(&self.folder).map_err(failed(&self.folder))?;
        // A file of its own: the one in /etc may say anything, another partitions file for instance.
        let options = self.folder.join("opensm.conf");
        write_atomically(&options, &mut self.render_options().as_bytes(), 0o644)?;
        let said = self.folder.join("opensm.out");
        let output = File::create(&said).map_err(failed(&said))?;
        let again = output.try_clone().map_err(failed(&said))?;
        let mut command = self.command(&self.find_executable().unwrap_or_else(|| self.name.clone()));
        command
            .arg("-F")
            .arg(&options)
            .args(["-g", &format!("{:#018x}", port.value())])
            // The lowest: whoever else there is comes first.
            .args(["-p", "0"])
            .args(self.identifying_arguments())
            .arg("-f")
            .arg(self.log_file())
            .stdout(output)
            .stderr(again);
        Ok(command)
    }

    /// What it said last, for people.
    pub fn last_output(&self) -> String {
        let text = fs::read_to_string(self.folder.join("opensm.out")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines.iter().rev().take(2).rev().copied().collect::<Vec<_>>().join("; ")
    }

    fn render_options(&self) -> String {
        format!(
            "# Ferroband writes this file.\nforce_log_flush TRUE\nlog_max_size 16\ndump_files_dir {}\nsm_priority 0\n\
             console off\nsminfo_polling_timeout 1000\npolling_retry_number 4\n",
            self.folder.display()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_started_with_our_file_at_the_lowest_priority() {
        let folder = tempfile::tempdir().unwrap();
        let program = OpensmProgram::new(&Root::at(folder.path()), "opensm").with_env("SIM_HOST", "M0");
        let command = program.start_command(Guid::new(0xe41d_2d03_0100_0001)).unwrap();
        let words: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let text = words.join(" ");
        let file = folder.path().join("var/lib/ferroband/opensm/partitions.conf");
        for part in ["-g 0xe41d2d0301000001", "-p 0", &format!("-P {}", file.display())] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(!words.contains(&"-B".to_owned()), "it is no daemon of its own");
        let options = fs::read_to_string(program.folder.join("opensm.conf")).unwrap();
        assert!(options.contains("sm_priority 0"), "{options}");
    }

    #[test]
    fn a_program_that_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert_eq!(OpensmProgram::new(&root, "opensm-that-nobody-has").find_executable(), None);
        assert_eq!(OpensmProgram::new(&root, folder.path().join("opensm")).find_executable(), None);
        assert!(!OpensmProgram::new(&root, "opensm-that-nobody-has").supports_virtualization());
    }
}
