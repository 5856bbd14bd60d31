//! Machines that run tests or a shell; they end with the process that started them.

use super::cache::VmCache;
use super::qemu::{self, VmOptions};
use super::{BootArtifacts, TestVerdict};
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Limit from power on to the fabric's verdict: 15 s on an idle host, much longer on a busy one.
const BOOT_LIMIT: Duration = Duration::from_secs(900);
/// Silence after which a machine counts as hung; init prints a line every 30 s.
const SILENCE_LIMIT: Duration = Duration::from_secs(300);
/// Limit of a test run; normally it ends long before.
const TOTAL_LIMIT: Duration = Duration::from_secs(3 * 3600);

/// Memory in MiB: unpacked initramfs, one IPoIB receive queue per interface, and the tests.
const MEMORY: u32 = 1024;

/// Results read from a machine's console.
pub struct MachineRun {
    /// One per test.
    pub verdicts: Vec<TestVerdict>,
    /// Lines of benchmarks.
    pub figures: Vec<String>,
    /// Why the machine ended.
    end_reason: String,
}

/// Boots one or two machines and collects the verdicts; tests without a verdict fail.
pub fn run_tests(artifacts: &BootArtifacts, machines: u8, tests: &[String]) -> Result<MachineRun> {
    let log = console_log(artifacts, machines)?;
    eprintln!("  · {machines} machine(s) with {}, console in {}", artifacts.release, log.display());
    let cable = log.with_extension("cable");
    let mut command = qemu_command(artifacts, "test", machines);
    if machines == 2 {
        connect_cable(&mut command, 1, &cable);
    }
    command.args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]);
    let child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("start qemu-system-x86_64")?;
    let first = QemuProcess(child);
    let second = (machines == 2).then(|| start_peer(artifacts, &cable, &log)).transpose()?;
    let mut run = watch(first, &log)?;
    drop(second);
    let _ = fs::remove_file(&cable);
    let fabric = if machines == 2 { "fabric-of-two" } else { "fabric" };
    let mut all = Vec::new();
    for name in std::iter::once(fabric).chain(tests.iter().map(String::as_str)) {
        let found = run.verdicts.iter().find(|verdict| verdict.name == name).cloned();
        all.push(found.unwrap_or_else(|| {
            let missing = TestVerdict::missing(name, &format!("no verdict: {}", run.end_reason));
            print_verdict(&missing);
            missing
        }));
    }
    if all.iter().all(|verdict| verdict.passed) {
        // Keep one log of a passed run per kernel for comparison.
        let _ = fs::rename(&log, log.with_file_name(format!("passed-{}-{machines}.log", artifacts.release)));
    } else {
        eprintln!("  · console kept: {}", log.display());
    }
    run.verdicts = all;
    Ok(run)
}

/// Starts the second machine of a pair: its switch is linked to the first one's, its console goes to a separate file.
fn start_peer(artifacts: &BootArtifacts, cable: &Path, log: &Path) -> Result<QemuProcess> {
    // QEMU fails if the socket does not exist yet.
    let start = Instant::now();
    while !cable.exists() && start.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(50));
    }
    let mut command = qemu_command(artifacts, "peer", 2);
    connect_cable(&mut command, 2, cable);
    let console = log.with_extension("peer.log");
    command.args(["-serial", &format!("file:{}", console.display())]);
    let child = command.stdin(Stdio::null()).spawn().context("start the second machine")?;
    Ok(QemuProcess(child))
}

/// Adds one end of an Ethernet cable between two machines: a Unix socket created by the first. Softib's switches use
/// it.
fn connect_cable(command: &mut Command, node: u8, cable: &Path) {
    let server = if node == 1 { "on" } else { "off" };
    command.args([
        "-netdev",
        &format!("stream,id=cable,server={server},addr.type=unix,addr.path={}", cable.display()),
    ]);
    command.args(["-device", &format!("virtio-net-pci,bus=pcie.0,netdev=cable,mac=02:00:00:00:00:0{node}")]);
}

/// Connects this terminal to the machine until it powers off.
pub fn run_shell(artifacts: &BootArtifacts) -> Result<()> {
    eprintln!("Starting a machine with InfiniBand; leave it with `exit`, or Ctrl-A X if it hangs.");
    let status = qemu_command(artifacts, "shell", 1)
        .args(["-serial", "mon:stdio"])
        .status()
        .context("start qemu-system-x86_64")?;
    if !status.success() {
        bail!("the machine ended with {status}");
    }
    Ok(())
}

fn qemu_command(artifacts: &BootArtifacts, mode: &str, machines: u8) -> Command {
    let append = format!("ferroband.mode={mode} ferroband.machines={machines}");
    let loglevel = if mode == "shell" { 3 } else { 4 };
    let whole = qemu::command(artifacts, &VmOptions { append: &append, loglevel, memory: MEMORY });
    // The machine must end with this process, even if it is killed.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(whole.get_program()).args(whole.get_args());
    command
}

fn console_log(artifacts: &BootArtifacts, machines: u8) -> Result<PathBuf> {
    let dir = VmCache::open()?.dir("logs")?;
    Ok(dir.join(format!("console-{}-{machines}-{}.log", artifacts.release, std::process::id())))
}

/// A running QEMU, killed on drop.
struct QemuProcess(Child);

impl Drop for QemuProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Copies the console to `log`, prints verdicts, and returns them with the reason why the machine ended.
fn watch(mut machine: QemuProcess, log: &Path) -> Result<MachineRun> {
    let console = machine.0.stdout.take().context("console of the machine")?;
    let mut file = File::create(log).with_context(|| format!("create {}", log.display()))?;
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut console = BufReader::new(console);
        let mut line = Vec::new();
        while console.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    let start = Instant::now();
    let (mut verdicts, mut figures) = (Vec::new(), Vec::new());
    let ended = loop {
        let left = TOTAL_LIMIT.saturating_sub(start.elapsed());
        let timeout =
            if verdicts.is_empty() { BOOT_LIMIT.saturating_sub(start.elapsed()) } else { SILENCE_LIMIT };
        match lines.recv_timeout(timeout.min(left)) {
            Ok(line) => {
                file.write_all(line.as_bytes())?;
                if let Some(verdict) = TestVerdict::parse(&line) {
                    print_verdict(&verdict);
                    verdicts.push(verdict);
                } else if let Some(figure) = line.trim_end().strip_prefix("| BENCH") {
                    figures.push(format!("BENCH{figure}"));
                }
            }
            Err(RecvTimeoutError::Disconnected) => break "the machine ended".to_owned(),
            Err(RecvTimeoutError::Timeout) => {
                break format!("the machine printed nothing for {} s", timeout.min(left).as_secs());
            }
        }
    };
    Ok(MachineRun { verdicts, figures, end_reason: ended })
}

fn print_verdict(verdict: &TestVerdict) {
    let TestVerdict { name, seconds, reason, .. } = verdict;
    match verdict.passed {
        true => eprintln!("  ✓ {name} ({seconds:.1} s)"),
        false => eprintln!("  ✗ {name} ({seconds:.1} s): {reason}"),
    }
}
