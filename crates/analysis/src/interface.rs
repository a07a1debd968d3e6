//! The interface by which a flow leaves its sender's host.

use sockscope_record::InterfacePart;

use crate::{FlowStore, Interface};

/// The last one that was recorded; `None` where not all of it was.
pub(crate) fn interface(flow: &FlowStore) -> Option<Interface> {
    let (mut device, mut discipline, mut place) = (None, None, None);
    for part in flow.events.iter().filter_map(|event| event.interface()) {
        match part {
            InterfacePart::Device(name) => device = Some(device_name(name)),
            InterfacePart::Discipline(name) => discipline = Some(device_name(name)),
            InterfacePart::Place { index, namespace } => place = Some((index, namespace)),
        }
    }
    let (index, namespace) = place?;
    Some(Interface { device: device?, discipline: discipline?, index, namespace })
}

/// A name of the kernel's, up to its first octet of 0, without control characters.
pub fn device_name(name: [u8; 16]) -> String {
    let end = name.iter().position(|octet| *octet == 0).unwrap_or(name.len());
    name[..end].escape_ascii().to_string()
}
