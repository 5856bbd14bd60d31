//! A real opensm on a fabric simulated by ibsim. smpquery reads the P_Key tables of the ports.
//!
//! Several fabrics can run in parallel without root: each has its own ibsim socket name, and each process its own
//! directory, because the preloaded library creates files in the working directory.

use anyhow::{Context, Result, bail};
use ferroband_model::Guid;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::cell::Cell;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Number of adapters on one leaf switch.
const ADAPTERS_PER_LEAF: usize = 16;

/// Node GUID of `M0`, the first adapter on which opensm can run.
const FIRST_MANAGER_GUID: u64 = 0xe41d_2d03_0100_0000;

/// A fabric simulated by ibsim.
pub struct OpensmTestbed {
    folder: TempDir,
    sockets: String,
    ibsim: Child,
    queries: Cell<usize>,
    managers: Vec<String>,
    ports: Vec<Guid>,
}

/// An opensm process on the simulated fabric.
pub struct TestbedOpensm {
    /// Partition configuration file that this process reads.
    pub partitions: PathBuf,
    log: PathBuf,
    process: Child,
}

impl OpensmTestbed {
    /// Starts a fabric with one adapter per port GUID (`P0`, `P1`, …) and three adapters for opensm (`M0` to `M2`).
    pub fn new(ports: &[Guid]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("ferroband-ibsim-").tempdir()?;
        let managers: Vec<String> = (0..3).map(|number| format!("M{number}")).collect();
        fs::write(folder.path().join("net"), ibsim_net_file(ports, &managers))?;
        let at = folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let sockets = format!("{at}-{}", std::process::id());
        let output = fs::File::create(folder.path().join("ibsim.out"))?;
        let ibsim = Command::new("ibsim")
            .args(["-s", "-N", "20000", "-S", "1000", "-P", "60000", "net"])
            .current_dir(folder.path())
            .env("IBSIM_SOCKNAME", &sockets)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("cannot start ibsim (Debian package ibsim-utils)")?;
        let testbed = Self { folder, sockets, ibsim, queries: Cell::new(0), managers, ports: ports.to_vec() };
        testbed.wait_until("ibsim listens", Duration::from_secs(30), || {
            // The sockets are abstract, so they are visible only in /proc.
            let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
            sockets.contains(&format!("{}:ctl", testbed.sockets))
        })?;
        Ok(testbed)
    }

    /// Starts opensm on the adapter `M<position>`. Does not create its partitions file.
    pub fn start_opensm(&self, position: usize, priority: u8) -> Result<TestbedOpensm> {
        let manager = self.spawn_opensm(position, priority)?;
        self.wait_for_role(manager)
    }

    /// Starts opensm while another one is master.
    ///
    /// A master queries a joining subnet manager at once. ibsim delivers the query to a program that has registered but
    /// does not listen yet. With a kernel the query would time out; in ibsim it never does, and the master's sweep
    /// hangs. Therefore the master is stopped until the new process listens.
    pub fn start_second_opensm(
        &self,
        master: &TestbedOpensm,
        position: usize,
        priority: u8,
    ) -> Result<TestbedOpensm> {
        kill(master.pid(), Signal::SIGSTOP)?;
        let joined = self.spawn_opensm(position, priority).and_then(|manager| {
            self.wait_until("opensm listens", Duration::from_secs(60), || manager.heavy_sweeps() > 0)?;
            Ok(manager)
        });
        kill(master.pid(), Signal::SIGCONT)?;
        self.wait_for_role(joined?)
    }

    fn spawn_opensm(&self, position: usize, priority: u8) -> Result<TestbedOpensm> {
        let host = self.managers.get(position).context("a fabric has three adapters for opensm")?;
        let folder = self.folder.path().join(format!("sm-{host}-{}", self.queries.get()));
        fs::create_dir_all(&folder)?;
        self.queries.set(self.queries.get() + 1);
        let partitions = self.folder.path().join(format!("partitions-{host}.conf"));
        let (configuration, log) = (folder.join("opensm.conf"), folder.join("opensm.log"));
        let generated =
            self.ibsim_command("opensm", host, &folder).args(["-c"]).arg(&configuration).output()?;
        let text = fs::read_to_string(&configuration)
            .with_context(|| format!("opensm -c: {}", String::from_utf8_lossy(&generated.stderr)))?;
        let options = [
            ("partition_config_file", partitions.display().to_string()),
            ("log_file", log.display().to_string()),
            ("dump_files_dir", folder.display().to_string()),
            ("force_log_flush", "TRUE".to_owned()),
            ("log_flags", "0x07".to_owned()),
            ("sm_priority", priority.to_string()),
            ("sminfo_polling_timeout", "500".to_owned()),
            ("polling_retry_number", "2".to_owned()),
        ];
        let line = |line: &str| {
            let named = |(name, _): &&(&str, String)| line.split_whitespace().next() == Some(*name);
            options
                .iter()
                .find(named)
                .map_or_else(|| line.to_owned(), |(name, value)| format!("{name} {value}"))
        };
        fs::write(&configuration, text.lines().map(line).collect::<Vec<_>>().join("\n"))?;
        let output = fs::File::create(folder.join("out"))?;
        let process = self
            .ibsim_command("opensm", host, &folder)
            .arg("-F")
            .arg(&configuration)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("cannot start opensm (Debian package opensm)")?;
        Ok(TestbedOpensm { partitions, log, process })
    }

    fn wait_for_role(&self, manager: TestbedOpensm) -> Result<TestbedOpensm> {
        self.wait_until("opensm is master or standby", Duration::from_secs(60), || {
            let log = manager.log();
            log.contains("SUBNET UP") || log.contains("Entering STANDBY state")
        })?;
        Ok(manager)
    }

    /// Environment variables for a program that uses the adapter `M<position>`.
    pub fn client_env(&self, position: usize) -> Vec<(String, String)> {
        let pair = |name: &str, value: String| (name.to_owned(), value);
        vec![
            pair("LD_PRELOAD", umad2sim_library().display().to_string()),
            pair("IBSIM_SOCKNAME", self.sockets.clone()),
            pair("SIM_HOST", self.managers.get(position).cloned().unwrap_or_default()),
        ]
    }

    /// Port GUID of the adapter `M<position>`.
    pub fn manager_port(position: usize) -> Guid {
        Guid::new(FIRST_MANAGER_GUID + 0x100 * position as u64 + 1)
    }

    /// Returns the P_Key table of a port without empty entries.
    ///
    /// The query runs on the port itself, because subnet administration has no path between two limited members.
    pub fn pkey_table(&self, port: Guid) -> Result<Vec<u16>> {
        let position =
            self.ports.iter().position(|known| *known == port).context("no port with this GUID")?;
        let text = self.smpquery(&format!("P{position}"), &["pkeys", "-D", "0"])?;
        let mut keys = Vec::new();
        for line in text.lines().filter(|line| line.contains(": 0x")) {
            let words = line.split_once(':').map_or("", |(_, words)| words).split_whitespace();
            keys.extend(words.filter_map(|word| u16::from_str_radix(word.trim_start_matches("0x"), 16).ok()));
        }
        let capacity = text.contains("pkeys capacity");
        if !capacity {
            bail!("smpquery printed no P_Key table, but {text:?}");
        }
        Ok(keys.into_iter().filter(|key| *key != 0).collect())
    }

    fn smpquery(&self, host: &str, arguments: &[&str]) -> Result<String> {
        let number = self.queries.get();
        self.queries.set(number + 1);
        let folder = self.folder.path().join(format!("query-{number}"));
        fs::create_dir(&folder)?;
        let mut query = Command::new("timeout");
        query.args(["20", "smpquery"]).args(arguments);
        self.set_ibsim_env(&mut query, host, &folder);
        let output = query.output().context("cannot run smpquery (Debian package infiniband-diags)")?;
        fs::remove_dir_all(&folder).ok();
        if !output.status.success() {
            bail!("smpquery {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Sends a command to the ibsim console, for example `Unlink "P0"[1]`.
    pub fn console_command(&mut self, line: &str) -> Result<()> {
        let stdin = self.ibsim.stdin.as_mut().context("ibsim console is closed")?;
        writeln!(stdin, "{line}")?;
        Ok(stdin.flush()?)
    }

    fn ibsim_command(&self, program: &str, host: &str, folder: &Path) -> Command {
        let mut command = Command::new(program);
        self.set_ibsim_env(&mut command, host, folder);
        command
    }

    fn set_ibsim_env(&self, command: &mut Command, host: &str, folder: &Path) {
        command
            .current_dir(folder)
            .env("LD_PRELOAD", umad2sim_library())
            .env("IBSIM_SOCKNAME", &self.sockets)
            .env("SIM_HOST", host)
            .env("OSM_TMP_DIR", folder)
            .env("OSM_CACHE_DIR", folder);
    }

    fn wait_until(&self, what: &str, timeout: Duration, mut done: impl FnMut() -> bool) -> Result<()> {
        let end = Instant::now() + timeout;
        while !done() {
            if Instant::now() > end {
                let output = fs::read_to_string(self.folder.path().join("ibsim.out")).unwrap_or_default();
                bail!("timed out waiting until {what}; ibsim output: {output}");
            }
            sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for OpensmTestbed {
    fn drop(&mut self) {
        let _ = self.ibsim.kill();
        let _ = self.ibsim.wait();
    }
}

impl TestbedOpensm {
    /// Sends SIGHUP, so that opensm reads its configuration files again and sweeps the fabric.
    pub fn send_sighup(&self) -> Result<()> {
        Ok(kill(self.pid(), Signal::SIGHUP)?)
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id().cast_signed())
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Number of heavy sweeps that opensm has started so far. In each, it reads the partitions file.
    pub fn heavy_sweeps(&self) -> usize {
        self.log().matches("INITIATING HEAVY SWEEP").count()
    }

    /// Whether the process is the master subnet manager, according to its log.
    pub fn is_master(&self) -> bool {
        let log = self.log();
        let last = |word: &str| log.rfind(&format!("Entering {word} state"));
        last("MASTER") > last("STANDBY")
    }

    pub fn kill(mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for TestbedOpensm {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Path of the library that connects programs to ibsim instead of /dev/infiniband, in Debian's
/// architecture-specific directory.
fn umad2sim_library() -> PathBuf {
    let found = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let found = found.map(|folder| folder.path().join("umad2sim/libumad2sim.so")).find(|file| file.exists());
    found.unwrap_or_else(|| PathBuf::from("libumad2sim.so"))
}

/// An ibsim network file: a tree of switches with the adapters on the leaves. The port GUID is the node GUID plus 1.
fn ibsim_net_file(ports: &[Guid], managers: &[String]) -> String {
    let mut adapters: Vec<(String, u64)> = managers
        .iter()
        .enumerate()
        .map(|(number, name)| (name.clone(), FIRST_MANAGER_GUID + 0x100 * number as u64))
        .collect();
    adapters.extend(ports.iter().enumerate().map(|(number, guid)| (format!("P{number}"), guid.value() - 1)));
    let leaves = adapters.len().div_ceil(ADAPTERS_PER_LEAF);
    let mut text = String::new();
    let _ = writeln!(text, "switchguid=0xe41d2d0300000001\nSwitch {} \"SPINE\"", leaves.max(8));
    for leaf in 0..leaves {
        let _ = writeln!(text, "[{}] \"LEAF{leaf}\"[{}]", leaf + 1, ADAPTERS_PER_LEAF + 1);
    }
    for (leaf, group) in adapters.chunks(ADAPTERS_PER_LEAF).enumerate() {
        let _ = writeln!(
            text,
            "\nswitchguid=0xe41d2d03{:08x}\nSwitch {} \"LEAF{leaf}\"",
            0x100 + leaf,
            ADAPTERS_PER_LEAF + 8
        );
        for (port, (name, _)) in group.iter().enumerate() {
            let _ = writeln!(text, "[{}] \"{name}\"[1]", port + 1);
        }
        let _ = writeln!(text, "[{}] \"SPINE\"[{}]", ADAPTERS_PER_LEAF + 1, leaf + 1);
    }
    for (position, (name, guid)) in adapters.iter().enumerate() {
        let _ = writeln!(text, "\ncaguid={guid:#018x}\nHca 1 \"{name}\"");
        let _ = writeln!(
            text,
            "[1] \"LEAF{}\"[{}]",
            position / ADAPTERS_PER_LEAF,
            position % ADAPTERS_PER_LEAF + 1
        );
    }
    text
}
