//! The device plugin's side of the kubelet's interface, for one resource.

use super::{
    AllocatedDevices, DeviceState, preferred_allocation,
    wire::{
        self, AllocateRequest, AllocateResponse, ContainerPreferredAllocationResponse, DevicePluginOptions,
        Empty, ListAndWatchResponse, PreStartContainerRequest, PreStartContainerResponse,
        PreferredAllocationRequest, PreferredAllocationResponse, device_plugin_server::DevicePlugin,
    },
};
use crate::{allocate::ContainerAllocator, pools::AdvertisedDevice};
use futures::{StreamExt, future::ready, stream::BoxStream};
use std::sync::{Arc, PoisonError};
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tracing::info;

/// Serves one resource.
#[derive(Clone)]
pub struct ResourcePlugin {
    /// What is offered.
    pub resource: String,
    /// What the node has, kept up to date.
    pub state: watch::Receiver<Arc<DeviceState>>,
    /// What containers get.
    pub allocator: Arc<ContainerAllocator>,
    /// Notes of what was given.
    pub allocated: AllocatedDevices,
    /// Ends the streams, and with them the server.
    pub stop: CancellationToken,
}

/// What the kubelet may ask of us besides.
pub(super) fn plugin_options() -> DevicePluginOptions {
    DevicePluginOptions { pre_start_required: false, get_preferred_allocation_available: true }
}

fn list_response(resource: &str, board: &DeviceState) -> ListAndWatchResponse {
    let device = |unit: &AdvertisedDevice| wire::Device {
        id: unit.id.clone(),
        health: if unit.healthy { "Healthy" } else { "Unhealthy" }.to_owned(),
        topology: unit
            .numa
            .map(|node| wire::TopologyInfo { nodes: vec![wire::NumaNode { id: node.into() }] }),
    };
    let units = board.pool(resource).map(|share| share.devices.as_slice()).unwrap_or_default();
    ListAndWatchResponse { devices: units.iter().map(device).collect() }
}

#[tonic::async_trait]
impl DevicePlugin for ResourcePlugin {
    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(plugin_options()))
    }

    type ListAndWatchStream = BoxStream<'static, Result<ListAndWatchResponse, Status>>;

    async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<Self::ListAndWatchStream>, Status> {
        info!(resource = self.resource, "the kubelet lists and watches");
        let resource = self.resource.clone();
        let mut last = None;
        let lists = WatchStream::new(self.state.clone())
            .map({
                let resource = resource.clone();
                move |board| list_response(&resource, &board)
            })
            // Most changes of the board change nothing for the kubelet.
            .filter_map(move |list| {
                let new = last.as_ref() != Some(&list);
                if new {
                    let healthy = list.devices.iter().filter(|device| device.health == "Healthy").count();
                    info!(resource, units = list.devices.len(), healthy, "told the kubelet");
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
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let board = self.state.borrow().clone();
        let units = board.pool(&self.resource).map(|share| share.devices.as_slice()).unwrap_or_default();
        let container_responses = request
            .into_inner()
            .container_requests
            .iter()
            .map(|asked| {
                let size = usize::try_from(asked.allocation_size).unwrap_or_default();
                let must = &asked.must_include_device_i_ds;
                // Which GPUs the pod has is not known before it has everything.
                let ids = preferred_allocation::choose_devices(
                    units,
                    &asked.available_device_i_ds,
                    must,
                    size,
                    &[],
                );
                ContainerPreferredAllocationResponse { device_i_ds: ids }
            })
            .collect();
        Ok(Response::new(PreferredAllocationResponse { container_responses }))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let mut container_responses = Vec::new();
        for container in request.into_inner().container_requests {
            let ids = container.devices_ids;
            let board = self.state.borrow().clone();
            let share = board.pool(&self.resource);
            let known = share.map(|share| share.devices.as_slice()).unwrap_or_default();
            // What is leaving is somebody's still, whatever the kubelet knew a moment ago.
            let usable = |id: &&String| known.iter().any(|unit| unit.id == **id && unit.healthy);
            if let Some(id) = ids.iter().find(|id| !usable(id)) {
                return Err(Status::not_found(format!(
                    "{}: no usable device `{id}` on this node now; it may have been removed",
                    self.resource
                )));
            }
            let Some(share) = share.filter(|_| !ids.is_empty()) else {
                container_responses.push(wire::ContainerAllocateResponse::default());
                continue;
            };
            let answer = self.allocator.allocate(share, &ids, &board.inventory).await;
            container_responses.push(answer.map_err(|fault| Status::unavailable(fault.to_string()))?);
            info!(resource = self.resource, ?ids, "allocated");
            let mut given = self.allocated.lock().unwrap_or_else(PoisonError::into_inner);
            given.extend(ids.into_iter().map(|id| ((self.resource.clone(), id), String::new())));
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
