//! Packet sockets for hardware addresses of any length.

use crate::Error;
use crate::rtnetlink::Link;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, socket};
use std::os::fd::{AsRawFd, OwnedFd};

const ETH_P_ARP: u16 = 0x0806;
const ETH_P_IPV6: u16 = 0x86dd;
/// PACKET_IGNORE_OUTGOING of linux/if_packet.h (since 4.20).
const IGNORE_OUTGOING: libc::c_int = 23;

/// MAX_ADDR_LEN of linux/netdevice.h: maximum length of a hardware address.
const MAX_ADDR_LEN: usize = 32;

/// Struct sockaddr_ll with space for the longest address. The kernel requires an address as long as the device's
/// hardware address (packet_snd of net/packet/af_packet.c), but the struct in its header has only 8 bytes.
#[repr(C)]
struct LinkLayerSockAddr {
    family: u16,
    protocol: u16,
    index: i32,
    hardware: u16,
    kind: u8,
    length: u8,
    address: [u8; MAX_ADDR_LEN],
}

impl LinkLayerSockAddr {
    fn new(index: u32, protocol: u16, to: &[u8]) -> Self {
        let mut address = [0; MAX_ADDR_LEN];
        let length = to.len().min(address.len());
        address[..length].copy_from_slice(&to[..length]);
        Self {
            family: libc::AF_PACKET as u16,
            protocol: protocol.to_be(),
            index: index as i32,
            hardware: 0,
            kind: 0,
            length: length as u8,
            address,
        }
    }

    /// Number of bytes that the kernel reads: at least its own struct, never more than this one has.
    fn size(&self) -> usize {
        let head = size_of::<Self>() - MAX_ADDR_LEN;
        size_of::<libc::sockaddr_ll>().max(head + usize::from(self.length))
    }
}

/// A packet socket of type SOCK_DGRAM on one interface. Its frames have no link-layer header.
pub(super) struct PacketSocket {
    fd: OwnedFd,
    index: u32,
    protocol: u16,
    interface: String,
}

impl PacketSocket {
    pub(super) fn open(link: &Link, v6: bool) -> Result<Self, Error> {
        let protocol = if v6 { ETH_P_IPV6 } else { ETH_P_ARP };
        let failed = |doing: &str, errno| interface_error(doing, &link.name, errno);
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        // Protocol 0: no frames are received before the socket is bound to the interface.
        let fd = socket(AddressFamily::Packet, SockType::Datagram, flags, None);
        let fd = fd.map_err(|errno| failed("open a packet socket on", errno))?;
        let packet = Self { fd, index: link.index, protocol, interface: link.name.clone() };
        packet.bind().map_err(|errno| failed("bind a packet socket to", errno))?;
        Ok(packet)
    }

    #[expect(unsafe_code, reason = "a sockaddr longer than nix supports")]
    fn bind(&self) -> Result<(), Errno> {
        let sockaddr = LinkLayerSockAddr::new(self.index, self.protocol, &[]);
        let on: libc::c_int = 1;
        // SAFETY: both calls read the given number of bytes from live values of that size.
        let results = unsafe {
            let ignoring = libc::setsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                IGNORE_OUTGOING,
                (&raw const on).cast(),
                size_of_val(&on) as libc::socklen_t,
            );
            let bound = libc::bind(
                self.fd.as_raw_fd(),
                (&raw const sockaddr).cast(),
                sockaddr.size() as libc::socklen_t,
            );
            [ignoring, bound]
        };
        results.into_iter().try_for_each(|result| Errno::result(result).map(drop))
    }

    #[expect(unsafe_code, reason = "a sockaddr longer than nix supports")]
    pub(super) fn send(&self, frame: &[u8], to: &[u8]) -> Result<(), Error> {
        let sockaddr = LinkLayerSockAddr::new(self.index, self.protocol, to);
        // SAFETY: `frame` and `sockaddr` are live, and the lengths are not more than theirs.
        let sent = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const sockaddr).cast(),
                sockaddr.size() as libc::socklen_t,
            )
        };
        match Errno::result(sent) {
            Ok(_) => Ok(()),
            Err(errno) => Err(interface_error("send a probe through", &self.interface, errno)),
        }
    }

    /// Receives the next frame without blocking and returns its length. Returns `None` if no frame is available.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Option<usize> {
        recv(self.fd.as_raw_fd(), buffer, MsgFlags::empty()).ok()
    }
}

fn interface_error(doing: &str, interface: &str, errno: Errno) -> Error {
    Error::InterfaceRequest { doing: doing.into(), interface: interface.into(), errno, message: None }
}

#[cfg(test)]
mod tests;
