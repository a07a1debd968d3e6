//! The control group of a process, and its unit, container and pod.

use serde::Serialize;
use sockscope_record::ControlGroup;

/// A control group. A name that is not known is absent.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GroupView<'a> {
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<ContainerView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<PodView<'a>>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ContainerView<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PodView<'a> {
    uid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

impl<'a> GroupView<'a> {
    /// Of this group.
    pub fn new(group: &'a ControlGroup) -> Self {
        Self {
            path: &group.path,
            unit: group.unit.as_deref(),
            container: group
                .container
                .as_ref()
                .map(|it| ContainerView { id: &it.id, name: it.name.as_deref() }),
            pod: group.pod.as_ref().map(|it| PodView {
                uid: &it.uid,
                namespace: it.namespace.as_deref(),
                name: it.name.as_deref(),
            }),
        }
    }
}
