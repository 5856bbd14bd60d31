//! Builds the kubelet's Allocate response for a container.

use super::{
    cdi, device_info,
    device_specs::{self, READ_WRITE, READ_WRITE_MKNOD},
    environment,
    function_devices::FunctionDevices,
};
use crate::{
    discover::{DiscoveryRoots, Inventory, read_inventory},
    error::error_chain,
    kubelet::device_plugin_api::ContainerAllocateResponse,
    pools::{AdvertisedPool, DevicePoolKind, FunctionPool},
};
use ferroband_model::{Fault, FaultCode};
use serde_json::{Map, Value};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::{task::spawn_blocking, time};
use tracing::warn;

/// Number of retries of Allocate while an RDMA device returns from a pod's network namespace.
const MAX_RETRIES: usize = 10;
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Builds Allocate responses and writes the files that they refer to.
#[derive(Debug)]
pub struct ContainerAllocator {
    pub roots: DiscoveryRoots,
    /// Directory of device-info files, which CNI plugins read.
    pub device_info_dir: PathBuf,
    /// Directory of CDI specifications; `None` if device files are passed directly.
    pub cdi_dir: Option<PathBuf>,
}

impl ContainerAllocator {
    /// Creates an allocator with the default directories under `roots` and without CDI.
    pub fn new(roots: DiscoveryRoots) -> Self {
        let device_info_dir = roots.root.path("var/run/k8s.cni.cncf.io/devinfo/dp");
        Self { roots, device_info_dir, cdi_dir: None }
    }

    /// Makes the allocator pass functions to containers by CDI name.
    #[must_use]
    pub fn with_cdi(self) -> Self {
        Self { cdi_dir: Some(self.roots.root.path("var/run/cdi")), ..self }
    }

    /// Returns the response for a container that gets the devices `ids` of `advertised`. Waits up to two seconds
    /// for an RDMA device that is not back in the host network namespace.
    pub async fn allocate(
        &self,
        advertised: &AdvertisedPool,
        ids: &[String],
        inventory: &Arc<Inventory>,
    ) -> Result<ContainerAllocateResponse, Fault> {
        match &advertised.pool.kind {
            DevicePoolKind::Functions(functions) => {
                self.allocate_functions(advertised, functions, ids, inventory).await
            }
            DevicePoolKind::WholeNode { .. } => {
                let mut response = shared_response(advertised, inventory, READ_WRITE);
                let knem = inventory
                    .knem
                    .as_deref()
                    .and_then(|path| device_specs::device_spec("/dev/knem", path, READ_WRITE));
                device_specs::add_missing(&mut response.devices, knem);
                Ok(response)
            }
            DevicePoolKind::Shared { .. } => Ok(shared_response(advertised, inventory, READ_WRITE_MKNOD)),
        }
    }

    async fn allocate_functions(
        &self,
        advertised: &AdvertisedPool,
        functions: &FunctionPool,
        ids: &[String],
        inventory: &Arc<Inventory>,
    ) -> Result<ContainerAllocateResponse, Fault> {
        let mut inventory = inventory.clone();
        let mut retries = 0;
        let all = loop {
            let collect = |id: &String| {
                let function = inventory.function(id)?;
                let collected = FunctionDevices::collect(
                    function,
                    &advertised.pool,
                    functions,
                    &inventory,
                    &self.roots.root,
                )?;
                Some((id.clone(), collected))
            };
            let all: Vec<Result<(String, FunctionDevices), &String>> =
                ids.iter().map(|id| collect(id).ok_or(id)).collect();
            match all.into_iter().collect::<Result<Vec<_>, _>>() {
                Ok(all) => break all,
                Err(id) if retries >= MAX_RETRIES => return Err(not_ready_fault(advertised, id)),
                Err(_) => {}
            }
            retries += 1;
            time::sleep(RETRY_PAUSE).await;
            inventory = Arc::new(read_inventory(self.roots.clone()).await.map_err(|e| e.fault())?);
        };
        let mut response = ContainerAllocateResponse::default();
        let mut info: Map<String, Value> = Map::new();
        let mut devices = cdi::CdiDevices::new();
        for (id, collected) in all {
            self.write_device_info(advertised, &id, collected.rdma).await;
            device_specs::add_missing(&mut response.devices, collected.devices.iter().cloned());
            info.insert(id.clone(), Value::Object(collected.info));
            devices.insert(id, collected.devices);
        }
        response.envs = environment::device_variables(&advertised.pool.resource, ids, info);
        if let Some(dir) = &self.cdi_dir {
            for device in advertised.devices.iter().filter(|device| !ids.contains(&device.id)) {
                let function = inventory.function(&device.id);
                let collected = function.and_then(|f| {
                    FunctionDevices::collect(f, &advertised.pool, functions, &inventory, &self.roots.root)
                });
                devices.extend(collected.map(|collected| (device.id.clone(), collected.devices)));
            }
            cdi::use_cdi_names(&mut response, dir, &advertised.pool.resource, &devices, ids)
                .map_err(|e| e.fault())?;
        }
        Ok(response)
    }

    /// Writes the device-info file of `id`. A failure is only logged, because the container does not need the
    /// file; only CNI plugins read it.
    async fn write_device_info(&self, advertised: &AdvertisedPool, id: &str, rdma: Vec<String>) {
        let (dir, resource, id) =
            (self.device_info_dir.clone(), advertised.pool.resource.clone(), id.to_owned());
        let written = spawn_blocking(move || device_info::write(&dir, &resource, &id, &rdma)).await;
        if let Ok(Err(e)) = written {
            warn!(error = %error_chain(&e), "cannot write the device-info file");
        }
    }
}

fn shared_response(
    advertised: &AdvertisedPool,
    inventory: &Inventory,
    permissions: &str,
) -> ContainerAllocateResponse {
    let mut response = ContainerAllocateResponse::default();
    let paths = advertised.files.iter().map(|file| file.path.as_path()).chain(inventory.rdma_cm.as_deref());
    device_specs::add_missing(
        &mut response.devices,
        paths.filter_map(|path| device_specs::rdma_spec(path, permissions)),
    );
    response
}

fn not_ready_fault(advertised: &AdvertisedPool, id: &str) -> Fault {
    Fault::new(
        FaultCode::PortNotReady,
        format!("{} {id}", advertised.pool.resource),
        "the function or its RDMA device is not in the host network namespace",
        "no action needed, retried automatically; if it persists, find the container that still has the device \
         (`rdma dev` in its network namespace)",
    )
}
