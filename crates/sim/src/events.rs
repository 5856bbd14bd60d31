//! Events of simulated hardware.
//!
//! Events are appended to `run/ferroband/simulation.events`, one line of JSON each, after the sysfs tree has been
//! updated. Readers watch the directory (inotify(7)) and continue where they stopped, so there can be any number of
//! them, and none has to run when an event happens. When the file becomes too long or the simulation is started
//! again, a new file replaces it: readers report [`HardwareEvent::Lost`] and read the complete state again.

use crate::{Error, files};
use ferroband_kernel::watch::EventSource;
use ferroband_kernel::{Error as KernelError, HardwareEvent, Root};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Size in bytes above which a new event file replaces the current one.
const MAX_FILE_SIZE: u64 = 1 << 20;
/// Length of the first line of an event file: 32 hexadecimal digits that identify the file, and a newline.
/// The inode number does not identify a file, because it can be reused.
const FILE_ID_LEN: usize = 33;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SimEvent {
    action: String,
    subsystem: String,
    path: String,
}

impl SimEvent {
    /// Creates an event of the device at `device_path` in the sysfs tree.
    pub(crate) fn new(action: &str, subsystem: &str, device_path: &Path) -> Self {
        Self {
            action: action.to_owned(),
            subsystem: subsystem.to_owned(),
            path: format!("/{}", device_path.display()),
        }
    }
}

fn path(root: &Root) -> PathBuf {
    root.run("ferroband/simulation.events")
}

/// Appends events to the event file in order. The caller must hold the lock of the simulation.
pub(crate) fn append(root: &Root, events: &[SimEvent]) -> Result<(), Error> {
    if events.is_empty() {
        return Ok(());
    }
    let path = path(root);
    let mut lines = Vec::new();
    for event in events {
        serde_json::to_writer(&mut lines, event)
            .map_err(|source| Error::InvalidFile { path: path.clone(), source })?;
        lines.push(b'\n');
    }
    if std::fs::metadata(&path).map_or(true, |file| file.len() > MAX_FILE_SIZE) {
        start_new_file(root)?;
    }
    let append = || {
        let mut options = OpenOptions::new();
        options.append(true).open(&path)?.write_all(&lines)
    };
    append().map_err(|source| files::file_error("append to", &path, source))
}

pub(crate) fn start_new_file(root: &Root) -> Result<(), Error> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let name = now << 32 | u128::from(std::process::id());
    files::write_volatile_file(&path(root), format!("{name:032x}\n").as_bytes())
}

pub(crate) fn remove(root: &Root) -> Result<(), Error> {
    files::remove_file(&path(root))
}

/// Reads events from the event file as they are appended.
pub(crate) struct SimEventSource {
    inotify: Inotify,
    path: PathBuf,
    /// First line of the event file that was read last. Empty if there was no event file.
    file_id: Vec<u8>,
    /// Position in bytes up to which the event file was read.
    offset: u64,
}

impl SimEventSource {
    /// Opens a source that reports only events appended from now on.
    pub(crate) fn open(root: &Root) -> Result<Self, KernelError> {
        let path = path(root);
        let directory = path.parent().unwrap_or(&path);
        let open = || {
            let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
            let flags = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_DELETE;
            inotify.add_watch(directory, flags)?;
            Ok(inotify)
        };
        let inotify = open().map_err(|errno: nix::errno::Errno| KernelError::File {
            doing: "watch",
            path: directory.to_owned(),
            source: errno.into(),
        })?;
        let mut events = Self { inotify, path, file_id: Vec::new(), offset: 0 };
        // Skip the events that were appended earlier.
        EventSource::read(&mut events, &mut VecDeque::new())?;
        Ok(events)
    }

    fn read_new_lines(&mut self, events: &mut VecDeque<HardwareEvent>) -> std::io::Result<()> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if !std::mem::take(&mut self.file_id).is_empty() {
                    events.push_back(HardwareEvent::Lost);
                }
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let mut name = Vec::with_capacity(FILE_ID_LEN);
        Read::by_ref(&mut file).take(FILE_ID_LEN as u64).read_to_end(&mut name)?;
        if name != self.file_id {
            (self.file_id, self.offset) = (name, FILE_ID_LEN as u64);
            events.push_back(HardwareEvent::Lost);
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // Leave an incomplete last line of the event file to the next call.
        let complete = text.rfind('\n').map_or(0, |end| end + 1);
        self.offset += complete as u64;
        events.extend(text[..complete].lines().map(|line| match serde_json::from_str::<SimEvent>(line) {
            Ok(SimEvent { action, subsystem, path }) => HardwareEvent::Device { action, subsystem, path },
            Err(_) => HardwareEvent::Lost,
        }));
        Ok(())
    }
}

impl AsFd for SimEventSource {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

impl EventSource for SimEventSource {
    fn read(&mut self, events: &mut VecDeque<HardwareEvent>) -> Result<(), KernelError> {
        // inotify only shows that the directory has changed. Discard its events, and read the event file.
        while self.inotify.read_events().is_ok_and(|events| !events.is_empty()) {}
        self.read_new_lines(events).map_err(|source| KernelError::File {
            doing: "read",
            path: self.path.clone(),
            source,
        })
    }
}
