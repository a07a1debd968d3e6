//! Work of a network device for the kernel: the offloads of `ethtool -k`.

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketType, socket};

/// An offload, by its short name of `ethtool -K`, and whether it is on.
pub type Offload = (&'static str, bool);

/// Commands of the kernel's interface (include/uapi/linux/ethtool.h) that read one offload each.
const COMMANDS: [(&str, u32); 6] =
    [("rx", 0x14), ("tx", 0x16), ("sg", 0x18), ("tso", 0x1e), ("gso", 0x23), ("gro", 0x2b)];

/// `struct ethtool_value` of the same file.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Offloads of a device of this network namespace; one that its driver does not have is off.
///
/// # Errors
///
/// When there is no such device.
pub fn offloads(device: &str) -> io::Result<Vec<Offload>> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    COMMANDS
        .into_iter()
        .map(|(name, command)| Ok((name, is_on(&socket, device, command)?)))
        .collect()
}

#[allow(unsafe_code)]
fn is_on(socket: &impl AsRawFd, device: &str, command: u32) -> io::Result<bool> {
    let mut value = EthtoolValue { command, data: 0 };
    // SAFETY: all octets zero are a valid `ifreq`, which has numbers and a pointer that may be null.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    if device.len() > room {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, octet) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = libc::c_char::from_ne_bytes([octet]);
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the kernel reads the request, and writes to `value`, which lives until it returns.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    if done == 0 {
        return Ok(value.data != 0);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EOPNOTSUPP) { Ok(false) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_gathers_and_a_device_that_is_not_there_is_an_error() {
        let of_loopback = offloads("lo").expect("every namespace has it");
        assert!(of_loopback.contains(&("sg", true)), "{of_loopback:?}");
        assert_eq!(of_loopback.len(), COMMANDS.len());
        assert!(offloads("not-there").is_err());
        assert!(offloads("a-name-that-is-too-long-for-a-device").is_err());
    }
}
