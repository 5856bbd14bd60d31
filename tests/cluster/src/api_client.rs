//! Reads objects with a Kubernetes client in the lab's network. Most scenarios poll; a kubectl process for each poll
//! takes more CPU time than the product under test.
//!
//! ```text
//! kubectl_get(&["-n", "x", "pod", "a"]) ──▶ ObjectQuery ──▶ path of the resource ──▶ GET ──▶ JSON
//!                                                           (aggregated discovery, cached)
//! ```

use crate::current_lab;
use kube::client::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::discovery::v2::APIGroupDiscoveryList;
use nix::sched::{CloneFlags, setns};
use serde_json::Value;
use std::fs::File;
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use tokio::runtime::{Builder, Runtime};

/// Arguments of `kubectl get`: a resource, optionally a name, `-n`, `-A`, `-l` and `--field-selector`.
#[derive(Debug, Default, PartialEq)]
struct ObjectQuery {
    resource: String,
    name: Option<String>,
    namespace: Option<String>,
    all_namespaces: bool,
    parameters: Vec<String>,
}

impl ObjectQuery {
    fn parse(args: &[&str]) -> Self {
        let mut query = Self::default();
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().copied().unwrap_or_default().to_owned();
            match *word {
                "-n" => query.namespace = Some(value()),
                "-A" => query.all_namespaces = true,
                "-l" => query.parameters.push(format!("labelSelector={}", percent_encode(&value()))),
                "--field-selector" => {
                    query.parameters.push(format!("fieldSelector={}", percent_encode(&value())));
                }
                option if option.starts_with('-') => {
                    panic!("{args:?}: {option} is not supported: use kubectl")
                }
                resource if query.resource.is_empty() => query.resource = resource.to_owned(),
                name if query.name.is_none() => query.name = Some(name.to_owned()),
                extra => panic!("{args:?}: unexpected {extra}"),
            }
        }
        query
    }

    fn path(&self, resource: &ServedResource) -> String {
        let mut path = resource.root.clone();
        if resource.namespaced && !self.all_namespaces {
            path += &format!("/namespaces/{}", self.namespace.as_deref().unwrap_or("default"));
        }
        path += &format!("/{}", resource.plural);
        if let Some(name) = &self.name {
            path += &format!("/{name}");
        }
        if self.parameters.is_empty() { path } else { format!("{path}?{}", self.parameters.join("&")) }
    }
}

fn percent_encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// A resource type of the API server.
#[derive(Clone, Debug)]
struct ServedResource {
    /// `/api/v1` or `/apis/GROUP/VERSION`.
    root: String,
    group: String,
    plural: String,
    names: Vec<String>,
    namespaced: bool,
}

impl ServedResource {
    /// Whether a user means it by this word: plural, singular or short name, optionally with `.GROUP`.
    fn is_called(&self, word: &str) -> bool {
        let plain = word.strip_suffix(&format!(".{}", self.group)).unwrap_or(word);
        self.names.iter().any(|name| name == plain)
    }
}

fn served_resources(list: APIGroupDiscoveryList) -> Vec<ServedResource> {
    let mut all = Vec::new();
    for group in list.items {
        let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
        // The first version is the preferred one.
        let Some(version) = group.versions.into_iter().next() else { continue };
        let number = version.version.unwrap_or_default();
        let root = if name.is_empty() { format!("/api/{number}") } else { format!("/apis/{name}/{number}") };
        for resource in version.resources {
            let plural = resource.resource.unwrap_or_default();
            let names = [plural.clone(), resource.singular_resource.unwrap_or_default()].into_iter();
            all.push(ServedResource {
                root: root.clone(),
                group: name.clone(),
                names: names.chain(resource.short_names).collect(),
                namespaced: resource.scope.as_deref() == Some("Namespaced"),
                plural,
            });
        }
    }
    all
}

/// A client and the resources that the API server had when they were last read.
struct LabClient {
    runtime: Runtime,
    client: Client,
    resources: Mutex<Vec<ServedResource>>,
}

impl LabClient {
    fn connect() -> Result<Self, String> {
        let lab = current_lab();
        let netns = lab.network_namespace();
        // All connections are made by the runtime's threads, so these enter the lab's network.
        let enter = move || {
            let namespace = File::open(&netns).unwrap_or_else(|e| panic!("{}: {e}", netns.display()));
            setns(namespace, CloneFlags::CLONE_NEWNET).expect("the lab's network namespace");
        };
        let runtime =
            Builder::new_multi_thread().worker_threads(1).enable_all().on_thread_start(enter).build();
        let runtime = runtime.map_err(|e| e.to_string())?;
        let kubeconfig = Kubeconfig::read_from(lab.kubeconfig()).map_err(|e| e.to_string())?;
        let connect = async move {
            let options = KubeConfigOptions::default();
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
            Client::try_from(config.map_err(|e| e.to_string())?).map_err(|e| e.to_string())
        };
        let client = run_on(&runtime, connect)?;
        Ok(Self { runtime, client, resources: Mutex::default() })
    }

    fn resource(&self, word: &str) -> Result<ServedResource, String> {
        let mut known = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.iter().any(|resource| resource.is_called(word)) {
            // Not read yet, or a CRD was added.
            let client = self.client.clone();
            let read = async move {
                let core = client.list_core_api_versions_aggregated().await?;
                let groups = client.list_api_groups_aggregated().await?;
                Ok([served_resources(core), served_resources(groups)].concat())
            };
            *known =
                run_on(&self.runtime, async move { read.await.map_err(|e: kube::Error| e.to_string()) })?;
        }
        let found = known.iter().find(|resource| resource.is_called(word));
        found.cloned().ok_or_else(|| format!("the server doesn't have a resource type {word:?}"))
    }

    fn get(&self, query: &ObjectQuery) -> Result<Value, String> {
        let path = query.path(&self.resource(&query.resource)?);
        let client = self.client.clone();
        run_on(&self.runtime, async move {
            let request = http::Request::get(path).body(Vec::new()).map_err(|e| e.to_string())?;
            client.request(request).await.map_err(|e| e.to_string())
        })
    }
}

/// Runs a future on the runtime's thread. `block_on` would connect on the caller's thread, in the host's network.
fn run_on<T: Send + 'static>(
    runtime: &Runtime,
    future: impl Future<Output = Result<T, String>> + Send + 'static,
) -> Result<T, String> {
    let (sender, receiver) = mpsc::channel();
    runtime.spawn(async move { sender.send(future.await) });
    receiver.recv().unwrap_or_else(|_| Err("the client's task panicked".to_owned()))
}

/// `kubectl get ARGS -o json` without a kubectl process: an object or a list. Supports `-n`, `-A`, `-l` and
/// `--field-selector`.
pub fn try_get(args: &[&str]) -> Result<Value, String> {
    static CLIENT: OnceLock<Result<LabClient, String>> = OnceLock::new();
    let client = CLIENT.get_or_init(LabClient::connect);
    client.as_ref().map_err(Clone::clone)?.get(&ObjectQuery::parse(args))
}

/// [`try_get`] of something that must exist.
#[track_caller]
pub fn kubectl_get(args: &[&str]) -> Value {
    try_get(args).unwrap_or_else(|error| panic!("get {args:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> ServedResource {
        let names = ["pods", "pod", "po"].map(str::to_owned).to_vec();
        let (root, plural) = ("/api/v1".to_owned(), "pods".to_owned());
        ServedResource { root, group: String::new(), plural, names, namespaced: true }
    }

    #[test]
    fn queries_become_paths() {
        let path = |args: &[&str]| ObjectQuery::parse(args).path(&pods());
        assert_eq!(path(&["pod", "a"]), "/api/v1/namespaces/default/pods/a");
        assert_eq!(path(&["-n", "x", "pods"]), "/api/v1/namespaces/x/pods");
        assert_eq!(path(&["pods", "-A", "-l", "a=b"]), "/api/v1/pods?labelSelector=a%3Db");
    }

    #[test]
    fn resources_have_several_names() {
        let group = "ferroband.io".to_owned();
        let names = ["fabrics", "fabric"].map(str::to_owned).to_vec();
        let (root, plural) = ("/apis/ferroband.io/v1alpha1".to_owned(), "fabrics".to_owned());
        let fabrics = ServedResource { root, group, plural, names, namespaced: false };
        assert!(fabrics.is_called("fabrics.ferroband.io") && fabrics.is_called("fabric"));
        assert!(!fabrics.is_called("fabrics.other.io") && !pods().is_called("fabric"));
        assert_eq!(
            ObjectQuery::parse(&["fabric", "f"]).path(&fabrics),
            "/apis/ferroband.io/v1alpha1/fabrics/f"
        );
    }
}
