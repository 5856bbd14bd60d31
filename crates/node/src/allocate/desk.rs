//! Where a container's request is answered.

use super::{
    cdi, environment,
    files::{self, MAKE, USE},
    given::Given,
    info_file,
};
use crate::{
    advertise::wire::ContainerAllocateResponse,
    discover::{Inventory, Sight, look},
    error::chain,
    pools::{Functions, Kind, Share},
};
use ferroband_model::{Fault, FaultCode};
use serde_json::{Map, Value};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::{task::spawn_blocking, time};
use tracing::warn;

/// An RDMA device that comes back from a pod's namespace is waited for this often,
const LOOKS: usize = 10;
/// with this pause between.
const PAUSE: Duration = Duration::from_millis(200);

/// Answers what the kubelet asks for a container.
#[derive(Debug)]
pub struct Desk {
    /// The machine.
    pub sight: Sight,
    /// Where device-info files go.
    pub info_files: PathBuf,
    /// Where CDI specifications go, if functions are to be given by name.
    pub cdi: Option<PathBuf>,
}

impl Desk {
    /// A desk for the machine at `sight`, with the usual folders.
    pub fn new(sight: Sight) -> Self {
        let info_files = sight.root.path("var/run/k8s.cni.cncf.io/devinfo/dp");
        Self { sight, info_files, cdi: None }
    }

    /// Give functions by the names of a CDI specification.
    #[must_use]
    pub fn with_cdi(self) -> Self {
        Self { cdi: Some(self.sight.root.path("var/run/cdi")), ..self }
    }

    /// What a container with the units `ids` of `share` gets.
    pub async fn container(
        &self,
        share: &Share,
        ids: &[String],
        inventory: &Arc<Inventory>,
    ) -> Result<ContainerAllocateResponse, Fault> {
        match &share.pool.kind {
            Kind::Functions(chosen) => self.functions(share, chosen, ids, inventory).await,
            Kind::Whole { .. } => {
                let mut answer = together(share, inventory, USE);
                let knem = inventory.knem.as_deref().and_then(|path| files::at("/dev/knem", path, USE));
                files::add(&mut answer.devices, knem);
                Ok(answer)
            }
            Kind::Shared { .. } => Ok(together(share, inventory, MAKE)),
        }
    }

    async fn functions(
        &self,
        share: &Share,
        chosen: &Functions,
        ids: &[String],
        inventory: &Arc<Inventory>,
    ) -> Result<ContainerAllocateResponse, Fault> {
        let mut inventory = inventory.clone();
        let mut looks = 0;
        let all = loop {
            let given = |id: &String| {
                let function = inventory.function(id)?;
                let given = Given::of(function, &share.pool, chosen, &inventory, &self.sight.root)?;
                Some((id.clone(), given))
            };
            let all: Vec<Result<(String, Given), &String>> =
                ids.iter().map(|id| given(id).ok_or(id)).collect();
            match all.into_iter().collect::<Result<Vec<_>, _>>() {
                Ok(all) => break all,
                Err(id) if looks >= LOOKS => return Err(away(share, id)),
                Err(_) => {}
            }
            looks += 1;
            time::sleep(PAUSE).await;
            inventory = Arc::new(look(self.sight.clone()).await.map_err(|e| e.fault())?);
        };
        let mut answer = ContainerAllocateResponse::default();
        let mut info: Map<String, Value> = Map::new();
        let mut devices = cdi::Devices::new();
        for (id, given) in all {
            self.write_info(share, &id, given.rdma).await;
            files::add(&mut answer.devices, given.devices.iter().cloned());
            info.insert(id.clone(), Value::Object(given.info));
            devices.insert(id, given.devices);
        }
        answer.envs = environment::variables(&share.pool.resource, ids, info);
        if let Some(folder) = &self.cdi {
            for unit in share.units.iter().filter(|unit| !ids.contains(&unit.id)) {
                let function = inventory.function(&unit.id);
                let given =
                    function.and_then(|f| Given::of(f, &share.pool, chosen, &inventory, &self.sight.root));
                devices.extend(given.map(|given| (unit.id.clone(), given.devices)));
            }
            cdi::by_name(&mut answer, folder, &share.pool.resource, &devices, ids).map_err(|e| e.fault())?;
        }
        Ok(answer)
    }

    /// A container can do without the file, which only CNI plugins read: a folder that is not there is no failure.
    async fn write_info(&self, share: &Share, id: &str, rdma: Vec<String>) {
        let (folder, resource, id) = (self.info_files.clone(), share.pool.resource.clone(), id.to_owned());
        let written = spawn_blocking(move || info_file::write(&folder, &resource, &id, &rdma)).await;
        if let Ok(Err(e)) = written {
            warn!(error = %chain(&e), "no device-info file");
        }
    }
}

fn together(share: &Share, inventory: &Inventory, permissions: &str) -> ContainerAllocateResponse {
    let mut answer = ContainerAllocateResponse::default();
    let paths = share.files.iter().map(|file| file.path.as_path()).chain(inventory.rdma_cm.as_deref());
    files::add(&mut answer.devices, paths.filter_map(|path| files::rdma(path, permissions)));
    answer
}

fn away(share: &Share, id: &str) -> Fault {
    Fault::new(
        FaultCode::PortNotReady,
        format!("{} {id}", share.pool.resource),
        "the function or its RDMA device is not in the host's namespace",
        "it is tried again; look for a container that still has it (`rdma dev` in its namespace)",
    )
}
