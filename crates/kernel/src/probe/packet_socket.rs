//! A packet socket on one interface, for hardware addresses of any length.

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

/// sockaddr_ll with room for an address of 20 bytes. The kernel wants a name as long as the device's addresses are
/// (packet_snd of net/packet/af_packet.c), and its own structure has room for 8.
#[repr(C)]
struct LinkLayerSockAddr {
    family: u16,
    protocol: u16,
    index: i32,
    hardware: u16,
    kind: u8,
    length: u8,
    address: [u8; 20],
}

/// Sends and receives without the link's own header.
pub(super) struct PacketSocket {
    fd: OwnedFd,
    index: u32,
    protocol: u16,
    interface: String,
}

impl PacketSocket {
    pub(super) fn open(link: &Link, v6: bool) -> Result<Self, Error> {
        let protocol = if v6 { ETH_P_IPV6 } else { ETH_P_ARP };
        let failed = |doing: &str, errno| refused(doing, &link.name, errno);
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        // Protocol 0: nothing comes in before it is bound to the interface.
        let fd = socket(AddressFamily::Packet, SockType::Datagram, flags, None);
        let fd = fd.map_err(|errno| failed("open a packet socket on", errno))?;
        let packet = Self { fd, index: link.index, protocol, interface: link.name.clone() };
        packet.bind().map_err(|errno| failed("bind a packet socket to", errno))?;
        Ok(packet)
    }

    fn sockaddr(&self, to: &[u8]) -> LinkLayerSockAddr {
        let mut address = [0; 20];
        let length = to.len().min(address.len());
        address[..length].copy_from_slice(&to[..length]);
        LinkLayerSockAddr {
            family: libc::AF_PACKET as u16,
            protocol: self.protocol.to_be(),
            index: self.index as i32,
            hardware: 0,
            kind: 0,
            length: length as u8,
            address,
        }
    }

    #[expect(unsafe_code, reason = "a name longer than nix knows")]
    fn bind(&self) -> Result<(), Errno> {
        let name = self.sockaddr(&[]);
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
                (&raw const name).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            );
            [ignoring, bound]
        };
        results.into_iter().try_for_each(|result| Errno::result(result).map(drop))
    }

    #[expect(unsafe_code, reason = "a name longer than nix knows")]
    pub(super) fn send(&self, frame: &[u8], to: &[u8]) -> Result<(), Error> {
        let name = self.sockaddr(to);
        // The kernel's own structure is 20 bytes; longer addresses make it longer.
        let length = size_of::<libc::sockaddr_ll>().max(12 + to.len());
        // SAFETY: `frame` and `name` are live, and their lengths are those given: `name` has 32 bytes.
        let sent = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const name).cast(),
                length as libc::socklen_t,
            )
        };
        match Errno::result(sent) {
            Ok(_) => Ok(()),
            Err(errno) => Err(refused("send a probe through", &self.interface, errno)),
        }
    }

    /// The next frame, if there is one.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Option<usize> {
        recv(self.fd.as_raw_fd(), buffer, MsgFlags::empty()).ok()
    }
}

fn refused(doing: &str, interface: &str, errno: Errno) -> Error {
    Error::InterfaceRequest { doing: doing.into(), interface: interface.into(), errno, message: None }
}
