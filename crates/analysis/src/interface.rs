//! The interface by which a flow leaves its sender's host.

use sockscope_record::{InterfacePart, Side};

use crate::{ConnectionAnalysis, FlowStore, Interface, NamespaceNames};

/// The last one that was recorded; `None` where not all of it was.
pub(crate) fn interface(flow: &FlowStore, names: &NamespaceNames) -> Option<Interface> {
    let (mut device, mut discipline, mut place) = (None, None, None);
    for part in flow.events.iter().filter_map(|event| event.interface()) {
        match part {
            InterfacePart::Device(name) => device = Some(device_name(name)),
            InterfacePart::Discipline(name) => discipline = Some(device_name(name)),
            InterfacePart::Place { index, namespace } => place = Some((index, namespace)),
        }
    }
    let (index, namespace) = place?;
    let number = u32::try_from(namespace).ok();
    let namespace_name = number.and_then(|number| names.get(&number)).cloned();
    Some(Interface { device: device?, discipline: discipline?, index, namespace, namespace_name })
}

impl ConnectionAnalysis {
    /// Name of the network namespace of one end; `None` where it has no name, or the end's device was not recorded.
    pub fn namespace_name(&self, side: Side) -> Option<&str> {
        let interface = self.flows[side.sends() as usize].interface.as_ref()?;
        interface.namespace_name.as_deref()
    }
}

/// A name of the kernel's, up to its first octet of 0, without control characters.
pub fn device_name(name: [u8; 16]) -> String {
    let end = name.iter().position(|octet| *octet == 0).unwrap_or(name.len());
    name[..end].escape_ascii().to_string()
}
