//! Device-info files: written by device plugins, copied for the CNI plugins that use the device.
//!
//! ```text
//! devinfo/dp/<resource>-<device>-device.json ──copied──▶ devinfo/cni/<network>-<container>_<interface>
//!                                                          read by the plugin, which may rewrite it, then
//!                                                          used for network-status; removed by DEL
//! ```
//!
//! The format is that of the device-info specification 1.1.0. The files are optional.

use crate::ipc::plan::{Attachment, AttachmentDevice};
use crate::protocol::Error;
use ferroband_kernel::{Root, files};
use serde_json::Value;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Directory of the device-info files under `/run`. The specification says `/var/run`, which is a symlink to
/// it.
const DEVINFO_DIR: &str = "k8s.cni.cncf.io/devinfo";

/// Path of the device-info file, as passed to a plugin with the capability `CNIDeviceInfoFile`.
pub fn cni_file_for_plugin(network: &str, container: &str, ifname: &str) -> String {
    format!("/var/run/{DEVINFO_DIR}/cni/{}", file_name(network, container, ifname))
}

/// Path of the device-info file that the device plugin writes for `device`.
pub fn device_plugin_file(root: &Root, device: &AttachmentDevice) -> PathBuf {
    let name = format!("{}-{}-device.json", sanitize(&device.resource), sanitize(&device.id));
    root.run(DEVINFO_DIR).join("dp").join(name)
}

/// Path of the device-info file that the CNI plugins of `attachment` read and may rewrite.
pub fn cni_file(root: &Root, container: &str, attachment: &Attachment) -> PathBuf {
    root.run(DEVINFO_DIR).join("cni").join(file_name(&attachment.network, container, &attachment.ifname))
}

/// Copy the device plugin's device-info file to the path for CNI plugins, replacing the copy of an earlier
/// attempt.
pub(crate) fn copy_to_cni_file(root: &Root, container: &str, attachment: &Attachment) -> Result<(), Error> {
    let Some(device) = &attachment.device else { return Ok(()) };
    let content = match fs::read(device_plugin_file(root, device)) {
        Ok(content) => content,
        // The file is only informative, so a file that cannot be read is not an error.
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                eprintln!("ferroband: cannot read {}: {error}", device_plugin_file(root, device).display());
            }
            return Ok(());
        }
    };
    let path = cni_file(root, container, attachment);
    write_read_only(&path, &content).map_err(|source| Error::File { path, doing: "write", source })
}

fn write_read_only(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    // Replace the file of an earlier attempt. The new file gets its final name at once, so that DEL also
    // finds and removes a file whose writing was interrupted.
    files::remove_file(path)?;
    fs::write(path, content)?;
    fs::set_permissions(path, Permissions::from_mode(0o444))
}

/// Read an attachment's device-info file after the plugins have run. Returns `None` if it is missing or not a
/// JSON object.
pub(crate) fn read(root: &Root, container: &str, attachment: &Attachment) -> Option<Value> {
    attachment.device.as_ref()?;
    let text = fs::read(cni_file(root, container, attachment)).ok()?;
    serde_json::from_slice(&text).ok().filter(Value::is_object)
}

/// Remove the device-info file of an attachment, if it exists.
pub(crate) fn remove(root: &Root, container: &str, attachment: &Attachment) -> Result<(), Error> {
    if attachment.device.is_none() {
        return Ok(());
    }
    let path = cni_file(root, container, attachment);
    files::remove_file(&path).map_err(|source| Error::File { path, doing: "remove", source })
}

fn file_name(network: &str, container: &str, ifname: &str) -> String {
    format!("{}-{container}_{ifname}", sanitize(network))
}

/// Replace `/`, which a file name cannot contain.
fn sanitize(name: &str) -> String {
    name.replace('/', "-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn attachment() -> Attachment {
        let device = AttachmentDevice { resource: "nvidia.com/ib_vf".into(), id: "0000:3b:00.2".into() };
        Attachment {
            network: "default/ib-net".into(),
            ifname: "net1".into(),
            device: Some(device),
            ..Attachment::default()
        }
    }

    // Case: cni 114
    #[test]
    fn the_device_plugins_file_is_copied_read_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let attachment = attachment();
        copy_to_cni_file(&root, "c1", &attachment).unwrap();
        assert_eq!(read(&root, "c1", &attachment), None, "the device plugin wrote no file");
        remove(&root, "c1", &attachment).unwrap();

        let dp = folder.path().join("run/k8s.cni.cncf.io/devinfo/dp");
        fs::create_dir_all(&dp).unwrap();
        let info = json!({"type": "pci", "version": "1.1.0", "pci": {"pci-address": "0000:3b:00.2"}});
        fs::write(dp.join("nvidia.com-ib_vf-0000:3b:00.2-device.json"), info.to_string()).unwrap();
        copy_to_cni_file(&root, "c1", &attachment).unwrap();
        copy_to_cni_file(&root, "c1", &attachment).unwrap();
        let file = folder.path().join("run/k8s.cni.cncf.io/devinfo/cni/default-ib-net-c1_net1");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o444);
        assert_eq!(read(&root, "c1", &attachment), Some(info));
        assert!(
            cni_file_for_plugin("default/ib-net", "c1", "net1")
                .ends_with("/devinfo/cni/default-ib-net-c1_net1")
        );
        remove(&root, "c1", &attachment).unwrap();
        remove(&root, "c1", &attachment).unwrap();
        assert!(!file.exists());
    }

    #[test]
    fn names_cannot_escape_the_directory() {
        let root = Root::at("/r");
        let device = AttachmentDevice { resource: "../../x".into(), id: "../y".into() };
        assert_eq!(
            device_plugin_file(&root, &device).parent(),
            Some(root.run(DEVINFO_DIR).join("dp").as_path())
        );
    }
}
