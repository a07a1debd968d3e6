//! Frames between devices. Their memory is used again, so that a long run needs no more of it.

pub(crate) use sockscope_stack::interface::Frame;

/// A frame's place in [`Frames`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameId(u32);

/// All frames under way.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    slots: Vec<Frame>,
    free: Vec<FrameId>,
}

impl Frames {
    /// A frame to fill; it may still hold bytes of one before.
    pub(crate) fn make(&mut self) -> FrameId {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(Frame::default());
            FrameId(self.slots.len() as u32 - 1)
        })
    }

    pub(crate) fn copy(&mut self, id: FrameId) -> FrameId {
        let copy = self.make();
        let mut frame = std::mem::take(self.frame_mut(copy));
        let original = self.frame(id);
        frame.bytes.clear();
        frame.bytes.extend_from_slice(&original.bytes);
        frame.mark = original.mark;
        *self.frame_mut(copy) = frame;
        copy
    }

    pub(crate) fn release(&mut self, id: FrameId) {
        debug_assert!(!self.free.contains(&id), "{id:?} is released twice");
        self.free.push(id);
    }

    pub(crate) fn frame(&self, id: FrameId) -> &Frame {
        &self.slots[id.0 as usize]
    }

    pub(crate) fn frame_mut(&mut self, id: FrameId) -> &mut Frame {
        &mut self.slots[id.0 as usize]
    }

    /// Frames in use.
    pub(crate) fn in_use(&self) -> usize {
        assert!(self.free.len() <= self.slots.len(), "more frames are free than there are");
        self.slots.len() - self.free.len()
    }
}
