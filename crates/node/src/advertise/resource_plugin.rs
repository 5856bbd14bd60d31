//! Implements the DevicePlugin gRPC service, which the kubelet calls, for one resource.

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
use std::sync::Arc;
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tracing::info;

#[derive(Clone)]
pub struct ResourcePlugin {
    pub resource: String,
    pub state: watch::Receiver<Arc<DeviceState>>,
    pub allocator: Arc<ContainerAllocator>,
    /// Devices allocated since this process started. The plugin adds every device that it allocates.
    pub allocated: AllocatedDevices,
    /// Ends the ListAndWatch streams when the server shuts down.
    pub stop: CancellationToken,
}

/// Returns which optional calls of the device plugin API the plugin supports.
pub(super) fn plugin_options() -> DevicePluginOptions {
    DevicePluginOptions { pre_start_required: false, get_preferred_allocation_available: true }
}

fn list_response(resource: &str, state: &DeviceState) -> ListAndWatchResponse {
    let to_device = |device: &AdvertisedDevice| wire::Device {
        id: device.id.clone(),
        health: if device.healthy { "Healthy" } else { "Unhealthy" }.to_owned(),
        topology: device
            .numa
            .map(|node| wire::TopologyInfo { nodes: vec![wire::NumaNode { id: node.into() }] }),
    };
    let devices = state.pool(resource).map(|advertised| advertised.devices.as_slice()).unwrap_or_default();
    ListAndWatchResponse { devices: devices.iter().map(to_device).collect() }
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
        info!(resource = self.resource, "kubelet opened ListAndWatch");
        let resource = self.resource.clone();
        let mut last = None;
        let lists = WatchStream::new(self.state.clone())
            .map({
                let resource = resource.clone();
                move |state| list_response(&resource, &state)
            })
            // Most state changes do not change the device list, so only a changed device list is sent.
            .filter_map(move |list| {
                let new = last.as_ref() != Some(&list);
                if new {
                    let healthy = list.devices.iter().filter(|device| device.health == "Healthy").count();
                    info!(
                        resource,
                        devices = list.devices.len(),
                        healthy,
                        "sent the device list to the kubelet"
                    );
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
        let state = self.state.borrow().clone();
        let devices =
            state.pool(&self.resource).map(|advertised| advertised.devices.as_slice()).unwrap_or_default();
        let container_responses = request
            .into_inner()
            .container_requests
            .iter()
            .map(|container| {
                let size = usize::try_from(container.allocation_size).unwrap_or_default();
                let must = &container.must_include_device_i_ds;
                // No GPU paths are passed, because the pod's GPUs are unknown until all its devices are allocated.
                let ids = preferred_allocation::choose_devices(
                    devices,
                    &container.available_device_i_ds,
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
            let state = self.state.borrow().clone();
            let advertised = state.pool(&self.resource);
            let devices = advertised.map(|advertised| advertised.devices.as_slice()).unwrap_or_default();
            // A terminating device may still be held by a pod. The kubelet may request it before it has
            // received the device list that marks it as unhealthy.
            let usable = |id: &&String| devices.iter().any(|device| device.id == **id && device.healthy);
            if let Some(id) = ids.iter().find(|id| !usable(id)) {
                return Err(Status::not_found(format!(
                    "{}: device `{id}` is not available on this node; it may have been removed",
                    self.resource
                )));
            }
            let Some(advertised) = advertised.filter(|_| !ids.is_empty()) else {
                container_responses.push(wire::ContainerAllocateResponse::default());
                continue;
            };
            let response = self.allocator.allocate(advertised, &ids, &state.inventory).await;
            container_responses.push(response.map_err(|fault| Status::unavailable(fault.to_string()))?);
            info!(resource = self.resource, ?ids, "allocated");
            let mut allocated = self.allocated.lock();
            allocated.extend(ids.into_iter().map(|id| ((self.resource.clone(), id), String::new())));
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
