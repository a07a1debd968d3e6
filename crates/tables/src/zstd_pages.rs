//! Pages of a column that zstd has compressed.
//!
//! `parquet` makes a context of zstd in each direction for each column. In a virtual machine that takes longer than to
//! decompress the pages of a small file, as zstd asks the CPU for its features. Here one context serves all columns.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

/// Octets of a page at most: a damaged size takes no memory. Writers close a page at 1 MiB.
const PAGE_MAX: u64 = 1 << 26;

thread_local! {
    static CONTEXT: RefCell<zstd::bulk::Decompressor<'static>> =
        RefCell::new(zstd::bulk::Decompressor::new().expect("memory for a context"));
}

/// The pages of a column in a file.
pub(crate) struct ZstdPages(SerializedPageReader<Bytes>);

impl ZstdPages {
    pub(crate) fn is_for(column: &ColumnChunkMetaData) -> bool {
        matches!(column.compression(), Compression::ZSTD(_))
    }

    pub(crate) fn open(file: &Bytes, column: &ColumnChunkMetaData, rows: usize) -> Result<Self> {
        // So the reader gives each page as it is stored.
        let stored = column.clone().into_builder().set_compression(Compression::UNCOMPRESSED);
        Ok(Self(SerializedPageReader::new(Arc::new(file.clone()), &stored.build()?, rows, None)?))
    }
}

impl PageReader for ZstdPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some(mut page) = self.0.get_next_page()? else { return Ok(None) };
        match &mut page {
            Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => {
                *buf = decompressed(buf)?;
            }
            // A part of such a page is not compressed.
            Page::DataPageV2 { .. } => {
                return Err(ParquetError::NYI("pages of version 2".to_owned()));
            }
        }
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.0.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0.skip_next_page()
    }
}

impl Iterator for ZstdPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

fn decompressed(stored: &[u8]) -> Result<Bytes> {
    let failure = |what: &str| ParquetError::General(format!("a compressed page: {what}"));
    let size = zstd::zstd_safe::get_frame_content_size(stored).ok().flatten();
    let size = size.filter(|size| *size <= PAGE_MAX).ok_or_else(|| failure("no size"))?;
    CONTEXT.with_borrow_mut(|context| {
        let octets = context.decompress(stored, size as usize);
        octets.map(Bytes::from).map_err(|error| failure(&error.to_string()))
    })
}
