//! Where a container's request is answered.

use super::{
    cdi, device_info,
    device_specs::{self, READ_WRITE, READ_WRITE_MKNOD},
    environment,
    function_devices::FunctionDevices,
};
use crate::{
    advertise::wire::ContainerAllocateResponse,
    discover::{DiscoveryRoots, Inventory, read_inventory},
    error::error_chain,
    pools::{AdvertisedPool, DevicePoolKind, FunctionPool},
};
use ferroband_model::{Fault, FaultCode};
use serde_json::{Map, Value};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::{task::spawn_blocking, time};
use tracing::warn;

/// An RDMA device that comes back from a pod's namespace is waited for this often,
const MAX_RETRIES: usize = 10;
/// with this pause between.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Answers what the kubelet asks for a container.
#[derive(Debug)]
pub struct ContainerAllocator {
    /// The machine.
    pub roots: DiscoveryRoots,
    /// Where device-info files go.
    pub device_info_dir: PathBuf,
    /// Where CDI specifications go, if functions are to be given by name.
    pub cdi_dir: Option<PathBuf>,
}

impl ContainerAllocator {
    /// A desk for the machine at `sight`, with the usual folders.
    pub fn new(sight: DiscoveryRoots) -> Self {
        let info_files = sight.root.path("var/run/k8s.cni.cncf.io/devinfo/dp");
        Self { roots: sight, device_info_dir: info_files, cdi_dir: None }
    }

    /// Give functions by the names of a CDI specification.
    #[must_use]
    pub fn with_cdi(self) -> Self {
        Self { cdi_dir: Some(self.roots.root.path("var/run/cdi")), ..self }
    }

    /// What a container with the units `ids` of `share` gets.
    pub async fn allocate(
        &self,
        share: &AdvertisedPool,
        ids: &[String],
        inventory: &Arc<Inventory>,
    ) -> Result<ContainerAllocateResponse, Fault> {
        match &share.pool.kind {
            DevicePoolKind::Functions(chosen) => self.allocate_functions(share, chosen, ids, inventory).await,
            DevicePoolKind::WholeNode { .. } => {
                let mut answer = shared_response(share, inventory, READ_WRITE);
                let knem = inventory
                    .knem
                    .as_deref()
                    .and_then(|path| device_specs::device_spec("/dev/knem", path, READ_WRITE));
                device_specs::add_missing(&mut answer.devices, knem);
                Ok(answer)
            }
            DevicePoolKind::Shared { .. } => Ok(shared_response(share, inventory, READ_WRITE_MKNOD)),
        }
    }

    async fn allocate_functions(
        &self,
        share: &AdvertisedPool,
        chosen: &FunctionPool,
        ids: &[String],
        inventory: &Arc<Inventory>,
    ) -> Result<ContainerAllocateResponse, Fault> {
        let mut inventory = inventory.clone();
        let mut looks = 0;
        let all = loop {
            let given = |id: &String| {
                let function = inventory.function(id)?;
                let given =
                    FunctionDevices::collect(function, &share.pool, chosen, &inventory, &self.roots.root)?;
                Some((id.clone(), given))
            };
            let all: Vec<Result<(String, FunctionDevices), &String>> =
                ids.iter().map(|id| given(id).ok_or(id)).collect();
            match all.into_iter().collect::<Result<Vec<_>, _>>() {
                Ok(all) => break all,
                Err(id) if looks >= MAX_RETRIES => return Err(not_ready_fault(share, id)),
                Err(_) => {}
            }
            looks += 1;
            time::sleep(RETRY_PAUSE).await;
            inventory = Arc::new(read_inventory(self.roots.clone()).await.map_err(|e| e.fault())?);
        };
        let mut answer = ContainerAllocateResponse::default();
        let mut info: Map<String, Value> = Map::new();
        let mut devices = cdi::CdiDevices::new();
        for (id, given) in all {
            self.write_device_info(share, &id, given.rdma).await;
            device_specs::add_missing(&mut answer.devices, given.devices.iter().cloned());
            info.insert(id.clone(), Value::Object(given.info));
            devices.insert(id, given.devices);
        }
        answer.envs = environment::device_variables(&share.pool.resource, ids, info);
        if let Some(folder) = &self.cdi_dir {
            for unit in share.devices.iter().filter(|unit| !ids.contains(&unit.id)) {
                let function = inventory.function(&unit.id);
                let given = function.and_then(|f| {
                    FunctionDevices::collect(f, &share.pool, chosen, &inventory, &self.roots.root)
                });
                devices.extend(given.map(|given| (unit.id.clone(), given.devices)));
            }
            cdi::use_cdi_names(&mut answer, folder, &share.pool.resource, &devices, ids)
                .map_err(|e| e.fault())?;
        }
        Ok(answer)
    }

    /// A container can do without the file, which only CNI plugins read: a folder that is not there is no failure.
    async fn write_device_info(&self, share: &AdvertisedPool, id: &str, rdma: Vec<String>) {
        let (folder, resource, id) =
            (self.device_info_dir.clone(), share.pool.resource.clone(), id.to_owned());
        let written = spawn_blocking(move || device_info::write(&folder, &resource, &id, &rdma)).await;
        if let Ok(Err(e)) = written {
            warn!(error = %error_chain(&e), "no device-info file");
        }
    }
}

fn shared_response(
    share: &AdvertisedPool,
    inventory: &Inventory,
    permissions: &str,
) -> ContainerAllocateResponse {
    let mut answer = ContainerAllocateResponse::default();
    let paths = share.files.iter().map(|file| file.path.as_path()).chain(inventory.rdma_cm.as_deref());
    device_specs::add_missing(
        &mut answer.devices,
        paths.filter_map(|path| device_specs::rdma_spec(path, permissions)),
    );
    answer
}

fn not_ready_fault(share: &AdvertisedPool, id: &str) -> Fault {
    Fault::new(
        FaultCode::PortNotReady,
        format!("{} {id}", share.pool.resource),
        "the function or its RDMA device is not in the host's namespace",
        "it is tried again; look for a container that still has it (`rdma dev` in its namespace)",
    )
}
