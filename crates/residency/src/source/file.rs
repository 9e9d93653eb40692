//! Segments that are a complete local file.

use super::{Source, Then};
use crate::error::ResidencyError;
use oboro_format::Segment;

impl Source for Segment {
    fn local(&self) -> &Segment {
        self
    }

    fn read(&self, part: usize, visit: &mut dyn FnMut(&[u8])) -> Result<(), ResidencyError> {
        Ok(self.check_part(part, visit)?)
    }

    fn check(&self, part: usize) -> Result<(), ResidencyError> {
        Ok(self.check_and_forget(part)?)
    }

    /// Returns `Ok`: the header was checked when the file was opened.
    fn check_header(&self) -> Result<(), ResidencyError> {
        Ok(())
    }

    fn is_local(&self, _part: usize) -> bool {
        true
    }

    fn discard(&self, _part: usize) -> bool {
        false
    }

    fn fetch(&self, _part: usize, _then: Then) {
        unreachable!("the file has all parts")
    }

    fn prefetch(&self, _part: usize) {}

    fn used(&self) {}
}
