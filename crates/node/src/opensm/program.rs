//! The opensm binary, its files and its command line.

use crate::{
    Error,
    install::{create_dir, write_atomically},
};
use ferroband_kernel::Root;
use ferroband_model::Guid;
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Directories that are searched for opensm and its tools after those in `PATH`.
const FALLBACK_DIRS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/local/sbin", "/opt/ufm/opensm/sbin"];

/// The opensm binary and its working directory.
#[derive(Clone, Debug)]
pub struct OpensmProgram {
    name: PathBuf,
    folder: PathBuf,
    /// Additional environment variables for opensm and its tools. Only tests set any.
    variables: Vec<(String, String)>,
}

impl OpensmProgram {
    /// `name` is a path, or a name to look up in `PATH`. The working directory is in the state directory
    /// under `root`.
    pub fn new(root: &Root, name: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), folder: root.state("opensm"), variables: Vec::new() }
    }

    /// Adds a variable to the environment of opensm and its tools.
    pub fn with_env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Path of opensm's partitions file. Its text outside Ferroband's section markers belongs to the
    /// administrator.
    pub fn partitions_file(&self) -> PathBuf {
        self.folder.join("partitions.conf")
    }

    pub fn log_file(&self) -> PathBuf {
        self.folder.join("opensm.log")
    }

    /// Name or path of the opensm binary, as configured.
    pub fn name(&self) -> &Path {
        &self.name
    }

    pub fn find_executable(&self) -> Option<PathBuf> {
        self.find_tool(&self.name)
    }

    /// Finds the executable `name`, such as `sminfo`. A path is used as it is.
    pub fn find_tool(&self, name: &Path) -> Option<PathBuf> {
        if name.components().count() > 1 {
            return Some(name.to_owned()).filter(|file| file.is_file());
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = env::split_paths(&path).chain(FALLBACK_DIRS.map(PathBuf::from));
        folders.map(|folder| folder.join(name)).find(|file| file.is_file())
    }

    /// Whether this opensm can manage the ports of virtual functions. Only versions that can do so contain
    /// the option name `virt_enabled` in their binary.
    pub fn supports_virtualization(&self) -> bool {
        let option = b"virt_enabled";
        let text = self.find_executable().and_then(|file| fs::read(file).ok()).unwrap_or_default();
        text.windows(option.len()).any(|window| window == option)
    }

    /// Returns a command that runs `file` with opensm's environment and working directory.
    pub fn command(&self, file: &Path) -> Command {
        let mut command = Command::new(file);
        command
            .current_dir(&self.folder)
            .env("OSM_TMP_DIR", &self.folder)
            // opensm stores its LID assignments here, so that LIDs do not change when it restarts.
            .env("OSM_CACHE_DIR", &self.folder)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Arguments that identify our opensm among other processes. No other opensm uses our partitions file.
    pub fn identifying_arguments(&self) -> [String; 2] {
        ["-P".to_owned(), self.partitions_file().display().to_string()]
    }

    /// Returns the command that starts opensm on a port. opensm does not daemonize: it is our child process,
    /// and keeps running as an orphan if we exit.
    pub fn start_command(&self, port: Guid) -> Result<Command, Error> {
        create_dir(&self.folder)?;
        // opensm uses our own options file, because the one in /etc may, for example, name another partitions
        // file.
        let options = self.folder.join("opensm.conf");
        write_atomically(&options, &mut self.render_options().as_bytes(), 0o644)?;
        let output_file = self.folder.join("opensm.out");
        let output = File::create(&output_file).map_err(Error::file("create", &output_file))?;
        let output_for_stderr = output.try_clone().map_err(Error::file("create", &output_file))?;
        let mut command = self.command(&self.find_executable().unwrap_or_else(|| self.name.clone()));
        command
            .arg("-F")
            .arg(&options)
            .args(["-g", &format!("{:#018x}", port.value())])
            // Priority 0 is the lowest, so that opensm yields to any subnet manager with a higher priority.
            .args(["-p", "0"])
            .args(self.identifying_arguments())
            .arg("-f")
            .arg(self.log_file())
            .stdout(output)
            .stderr(output_for_stderr);
        Ok(command)
    }

    /// Returns the last two lines of opensm's output, for error messages.
    pub fn last_output(&self) -> String {
        let text = fs::read_to_string(self.folder.join("opensm.out")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines.iter().rev().take(2).rev().copied().collect::<Vec<_>>().join("; ")
    }

    fn render_options(&self) -> String {
        format!(
            "# Written by Ferroband.\nforce_log_flush TRUE\nlog_max_size 16\ndump_files_dir {}\nsm_priority 0\n\
             console off\nsminfo_polling_timeout 1000\npolling_retry_number 4\n",
            self.folder.display()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opensm_starts_with_our_partitions_file_at_the_lowest_priority() {
        let folder = tempfile::tempdir().unwrap();
        let program = OpensmProgram::new(&Root::at(folder.path()), "opensm").with_env("SIM_HOST", "M0");
        let command = program.start_command(Guid::new(0xe41d_2d03_0100_0001)).unwrap();
        let arguments: Vec<String> =
            command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
        let text = arguments.join(" ");
        let file = folder.path().join("var/lib/ferroband/opensm/partitions.conf");
        for part in ["-g 0xe41d2d0301000001", "-p 0", &format!("-P {}", file.display())] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(!arguments.contains(&"-B".to_owned()), "it must not daemonize");
        let options = fs::read_to_string(program.folder.join("opensm.conf")).unwrap();
        assert!(options.contains("sm_priority 0"), "{options}");
    }

    #[test]
    fn missing_program_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert_eq!(OpensmProgram::new(&root, "opensm-does-not-exist").find_executable(), None);
        assert_eq!(OpensmProgram::new(&root, folder.path().join("opensm")).find_executable(), None);
        assert!(!OpensmProgram::new(&root, "opensm-does-not-exist").supports_virtualization());
    }
}
