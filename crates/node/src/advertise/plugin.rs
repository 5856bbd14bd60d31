//! The device plugin's side of the kubelet's interface, for one resource.

use super::{
    Resource,
    wire::{
        self, AllocateRequest, AllocateResponse, DevicePluginOptions, Empty, ListAndWatchResponse,
        PreStartContainerRequest, PreStartContainerResponse, PreferredAllocationRequest,
        PreferredAllocationResponse, device_plugin_server::DevicePlugin,
    },
};
use crate::{allocate, discover::Inventory};
use futures::{StreamExt, future::ready, stream::BoxStream};
use std::sync::Arc;
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tracing::info;

/// Serves one resource.
pub struct Plugin {
    /// What is offered.
    pub resource: Resource,
    /// What the node has, kept up to date by stage discover.
    pub inventory: watch::Receiver<Arc<Inventory>>,
    /// Ends the streams, and with them the server.
    pub stop: CancellationToken,
}

impl Plugin {
    fn list(resource: &Resource, inventory: &Inventory) -> ListAndWatchResponse {
        let devices = resource.devices(inventory).into_iter().map(|device| wire::Device {
            id: device.id,
            health: if device.healthy { "Healthy" } else { "Unhealthy" }.to_owned(),
            // All devices in one unit have no one NUMA node in common.
            topology: None,
        });
        ListAndWatchResponse { devices: devices.collect() }
    }
}

#[tonic::async_trait]
impl DevicePlugin for Plugin {
    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(DevicePluginOptions::default()))
    }

    type ListAndWatchStream = BoxStream<'static, Result<ListAndWatchResponse, Status>>;

    async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<Self::ListAndWatchStream>, Status> {
        info!(resource = self.resource.name, "the kubelet lists and watches");
        let resource = self.resource.clone();
        let mut last = None;
        let lists = WatchStream::new(self.inventory.clone())
            .map(move |inventory| Self::list(&resource, &inventory))
            // Most changes of the inventory change nothing for the kubelet.
            .filter_map(move |list| {
                let new = last.as_ref() != Some(&list);
                if new {
                    info!(devices = ?list.devices, "told the kubelet");
                    last = Some(list.clone());
                }
                ready(new.then_some(Ok(list)))
            });
        let stop = self.stop.clone();
        let lists = lists.take_until(async move { stop.cancelled().await });
        Ok(Response::new(lists.boxed()))
    }

    async fn get_preferred_allocation(
        &self,
        _: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        Err(Status::unimplemented("every unit of this resource is the same"))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let inventory = self.inventory.borrow().clone();
        let ours = self.resource.devices(&inventory);
        let mut container_responses = Vec::new();
        for container in request.into_inner().container_requests {
            for id in &container.devices_ids {
                if !ours.iter().any(|device| device.id == *id) {
                    let name = &self.resource.name;
                    return Err(Status::not_found(format!(
                        "{name}: no device `{id}` on this node now; the RDMA devices may have been removed"
                    )));
                }
            }
            info!(resource = self.resource.name, ids = ?container.devices_ids, "allocated");
            container_responses.push(allocate::container(&inventory));
        }
        Ok(Response::new(AllocateResponse { container_responses }))
    }

    async fn pre_start_container(
        &self,
        _: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse {}))
    }
}
