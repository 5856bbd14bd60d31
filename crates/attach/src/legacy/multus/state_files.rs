//! Reading the Multus files. Damaged parts count as absent: DEL must not fail because of them.

use super::{MULTUS_DIR, MultusAttachment, MultusState};
use crate::ipc::plan::{Attachment, AttachmentDevice};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferroband_config::{ConfigFields, set_runtime_config};
use ferroband_kernel::Root;
use ferroband_model::config_object::set_key;
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};

/// Decode base64 as Go's encoder writes byte slices into JSON; `None` if `text` is something else.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

type JsonObject = Map<String, Value>;

impl MultusState {
    /// Load the state of `container`, whose default interface is `ifname`. `version` applies to configurations without
    /// one. `None` if there is no state.
    pub(crate) fn load(root: &Root, container: &str, ifname: &str, version: &str) -> Option<Self> {
        let folder = root.path(MULTUS_DIR);
        let list = folder.join(container);
        let cache = LibcniCache::read(&folder.join("results"), container);
        let listed = fs::read(&list).ok();
        let delegates = listed.as_deref().and_then(|text| serde_json::from_slice::<Vec<Value>>(text).ok());
        let mut attached: Vec<_> = delegates
            .iter()
            .flatten()
            .enumerate()
            .filter_map(|(position, delegate)| {
                from_delegate(delegate.as_object()?, position, ifname, version, &cache)
            })
            .collect();
        if attached.is_empty() {
            attached =
                cache.0.iter().filter_map(|(path, entry)| from_cache(path, entry, ifname, version)).collect();
            // Multus attached the default network first.
            attached.sort_by_key(|one| (!one.attachment.default, one.attachment.ifname.clone()));
        }
        let list = listed.is_some().then_some(list);
        if attached.is_empty() && list.is_none() {
            return None;
        }
        Some(Self { container: container.to_owned(), attachments: attached, delegates_file: list })
    }
}

fn from_delegate(
    delegate: &JsonObject,
    position: usize,
    ifname: &str,
    version: &str,
    cache: &LibcniCache,
) -> Option<MultusAttachment> {
    let fields = ConfigFields(delegate);
    let text = |key: &str| fields.text(key).ok().flatten().filter(|text| !text.is_empty());
    // `Conf` and `ConfList` lack the keys that Multus does not know; `Bytes` has all of them.
    let whole = text("Bytes").and_then(decode).and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let has_plugins = |config: &JsonObject| {
        let fields = ConfigFields(config);
        fields.text("type").ok().flatten().is_some_and(|kind| !kind.is_empty())
            || fields.get("plugins").is_some()
    };
    let parsed = ["ConfList", "Conf"].iter().filter_map(|key| fields.object(key).ok().flatten());
    let config: JsonObject = whole.or_else(|| parsed.map(|part| part.0.clone()).find(has_plugins))?;
    let ifname = match text("ifnameRequest") {
        Some(name) => name.to_owned(),
        None if position == 0 => ifname.to_owned(),
        None => format!("net{position}"),
    };
    let mut attachment = build_attachment(config, &ifname, position == 0, version)?;
    if let Some(name) = text("Name") {
        attachment.network = name.to_owned();
    }
    if attachment.name.is_empty() {
        attachment.name = attachment.network.rsplit('/').next().unwrap_or_default().to_owned();
    }
    if let (Some(resource), Some(id)) = (text("resourceName"), text("deviceID")) {
        attachment.device = Some(AttachmentDevice { resource: resource.to_owned(), id: id.to_owned() });
    }
    if let Some(mac) = text("macRequest") {
        attachment.args.insert("MAC".to_owned(), mac.to_owned());
    }
    let cached = cache.0.iter().find(|(_, entry)| {
        let is = |key: &str, value: &str| ConfigFields(entry).text(key).ok().flatten() == Some(value);
        is("networkName", &attachment.name) && is("ifName", &attachment.ifname)
    });
    Some(match cached {
        Some((path, entry)) => with_cache(attachment, path, entry),
        None => MultusAttachment { attachment, result: None, args: None, cache_file: None },
    })
}

/// An attachment known only from libcni's cache.
fn from_cache(path: &Path, entry: &JsonObject, default: &str, version: &str) -> Option<MultusAttachment> {
    let fields = ConfigFields(entry);
    let config = decode(fields.text("config").ok()??)?;
    let ifname = fields.text("ifName").ok()??;
    let attachment =
        build_attachment(serde_json::from_slice(&config).ok()?, ifname, ifname == default, version)?;
    Some(with_cache(attachment, path, entry))
}

fn build_attachment(
    mut config: JsonObject,
    ifname: &str,
    default: bool,
    version: &str,
) -> Option<Attachment> {
    if ConfigFields(&config).text("cniVersion").ok().flatten().is_none_or(str::is_empty) {
        set_key(&mut config, "cniVersion", version.into());
    }
    Attachment::foreign(&config, ifname, default).ok()
}

fn with_cache(mut attachment: Attachment, path: &Path, entry: &JsonObject) -> MultusAttachment {
    let fields = ConfigFields(entry);
    if let Some(capabilities) = fields.object("capabilityArgs").ok().flatten() {
        for step in &mut attachment.steps {
            set_runtime_config(&mut step.config, Value::Object(capabilities.0.clone()));
        }
    }
    let pairs = fields.list("cniArgs").ok().flatten().into_iter().flatten();
    let pair = |pair: &Value| Some(format!("{}={}", pair.get(0)?.as_str()?, pair.get(1)?.as_str()?));
    let args: Vec<_> = pairs.filter_map(pair).collect();
    MultusAttachment {
        attachment,
        result: fields.get("result").filter(|result| result.is_object()).cloned(),
        args: (!args.is_empty()).then(|| args.join(";")),
        cache_file: Some(path.to_owned()),
    }
}

/// libcni's cache entries of one container, with their files.
struct LibcniCache(Vec<(PathBuf, JsonObject)>);

impl LibcniCache {
    fn read(folder: &Path, container: &str) -> Self {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        // The file name is only a hint, because network names may contain `-`. The `containerId` in the file
        // decides.
        let part = format!("-{container}-");
        let paths = entries.map(|entry| entry.path());
        let named = paths.filter(|path| path.to_string_lossy().contains(&part));
        let read = |path: PathBuf| {
            let entry: JsonObject = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
            (ConfigFields(&entry).text("containerId").ok()?? == container).then_some((path, entry))
        };
        Self(named.filter_map(read).collect())
    }
}
