//! The column `groups` of `flows.arrows`: control groups of the processes of each connection.
//!
//! It is behind the columns that every bundle has. A process without a known group has no item. An unknown name is
//! an empty text.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder, StringBuilder, UInt32Builder};
use arrow_array::{ArrayRef, ListArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::ArrowError;
use sockscope_record::{Connection, Container, ControlGroup, Pod, Process};

use crate::format::{self, GROUP_TEXTS};
use crate::layout::{BatchLayout, Cursor};
use crate::texts::{Texts, chunks, offsets, span};

/// The column's values for some rows.
pub(crate) fn lists(rows: &[Connection]) -> Result<ListArray, ArrowError> {
    let mut process = UInt32Builder::new();
    let mut texts = GROUP_TEXTS.map(|_| StringBuilder::new());
    let mut lengths = Vec::with_capacity(rows.len());
    for row in rows {
        let known = row.processes.iter().zip(0..);
        let known = known.filter_map(|(process, index)| Some((process.group.as_deref()?, index)));
        let before = process.len();
        for (group, index) in known {
            process.append_value(index);
            texts.iter_mut().zip(values(group)).for_each(|(to, text)| to.append_value(text));
        }
        lengths.push(process.len() - before);
    }
    let mut members: Vec<ArrayRef> = vec![Arc::new(process.finish())];
    members.extend(texts.iter_mut().map(|text| Arc::new(text.finish()) as ArrayRef));
    let items = StructArray::try_new(format::group_fields(), members, None)?;
    let lengths = OffsetBuffer::from_lengths(lengths);
    ListArray::try_new(format::group_field(), lengths, Arc::new(items), None)
}

/// The texts of an item, in the order of [`GROUP_TEXTS`].
fn values(group: &ControlGroup) -> [&str; GROUP_TEXTS.len()] {
    let (container, pod) = (group.container.as_ref(), group.pod.as_ref());
    [
        &group.path,
        group.unit.as_deref().unwrap_or_default(),
        container.map_or("", |it| &it.id),
        container.and_then(|it| it.name.as_deref()).unwrap_or_default(),
        pod.map_or("", |it| &it.uid),
        pod.and_then(|it| it.namespace.as_deref()).unwrap_or_default(),
        pod.and_then(|it| it.name.as_deref()).unwrap_or_default(),
    ]
}

/// Groups that were read: each is kept once, however many connections have it.
pub(crate) type Known = HashSet<Arc<ControlGroup>>;

/// The column in one batch.
pub(crate) struct Groups<'a> {
    items: &'a [[u8; 4]],
    process: &'a [[u8; 4]],
    texts: Vec<Texts<'a>>,
}

impl<'a> Groups<'a> {
    pub(crate) fn new(
        body: &'a [u8],
        layout: &BatchLayout,
        next: &mut Cursor<'_>,
    ) -> Result<Self, String> {
        let items = offsets(body, next.lists(layout.rows)?, layout.rows)?;
        let count = next.structures()?;
        let process = chunks(body, next.fixed(count, 4)?);
        let texts = GROUP_TEXTS.iter().map(|_| Texts::new(body, next.texts(count)?, count));
        Ok(Self { items, process, texts: texts.collect::<Result<_, String>>()? })
    }

    /// Gives the processes of a row their groups.
    pub(crate) fn give(
        &self,
        row: usize,
        processes: &mut [Process],
        known: &mut Known,
    ) -> Result<(), String> {
        for item in span(self.items, row)? {
            let index = self.process.get(item).ok_or("groups inside their column")?;
            let index = u32::from_le_bytes(*index) as usize;
            let process = processes.get_mut(index).ok_or("a group of a process of its row")?;
            let group = self.group(item)?;
            let kept = known.get(&group).cloned().unwrap_or_else(|| Arc::new(group));
            known.insert(kept.clone());
            process.group = Some(kept);
        }
        Ok(())
    }

    fn group(&self, item: usize) -> Result<ControlGroup, String> {
        let text = |index: usize| self.texts[index].text(item).map(str::to_owned);
        let maybe = |index: usize| Ok::<_, String>(Some(text(index)?).filter(|it| !it.is_empty()));
        let container = match maybe(2)? {
            Some(id) => Some(Container { id, name: maybe(3)? }),
            None => None,
        };
        let pod = match maybe(4)? {
            Some(uid) => Some(Pod { uid, namespace: maybe(5)?, name: maybe(6)? }),
            None => None,
        };
        Ok(ControlGroup { path: text(0)?, unit: maybe(1)?, container, pod })
    }
}
