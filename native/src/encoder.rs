//! The encoder that Python calls: a batch of records in, the bytes of COPY out, and the records that are uncertain.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::arrow;
use crate::columns;
use crate::fingerprint::hash_record;
use crate::layout::{Column, Kind, Trees};
use crate::reader::Run;
use crate::row::{IndexLimit, Key, Layout, Record, RowWriter};

/// A declared column: its path, family, precision or length, scale, unit, and whether it is required.
type Declared = (Vec<String>, String, u32, u32, Option<String>, bool);
/// The rows of a batch, the places of the records that the reference decides about, and the sum of all hashes.
type Encoded<'py> = (Bound<'py, PyBytes>, Vec<usize>, i64);

/// The most bytes that are reserved for a batch before its rows are written.
const MOST_RESERVED: usize = 4 * 1024 * 1024;

/// Encodes the records of one load.
#[pyclass]
pub struct Encoder {
    writer: RowWriter,
    /// The bytes of an average row of the last batch.
    row_bytes: usize,
}

#[pymethods]
impl Encoder {
    #[new]
    fn new(
        load_id: i64,
        declared: Vec<Declared>,
        key: Option<&str>,
        keeps_tombstones: bool,
        limits: Vec<(usize, Vec<usize>)>,
    ) -> PyResult<Encoder> {
        let mut columns = vec![];
        let (mut paths, mut padded) = (vec![], vec![]);
        for (path, family, first, second, unit, required) in declared {
            columns.push(Column { kind: Kind::of(&family, first, second, unit.as_deref())?, required });
            paths.push(path);
            padded.push((family == "char").then_some(first as usize));
        }
        let layout = Layout {
            columns,
            trees: Trees::new(&paths),
            padded,
            load_id,
            key: match key {
                None => Key::Left,
                Some("text") => Key::Text,
                Some("bytes") => Key::Bytes,
                Some(other) => return Err(PyValueError::new_err(format!("unknown format of keys: {other}"))),
            },
            keeps_tombstones,
            limits: limits.into_iter().map(|(most, fields)| IndexLimit { most, fields }).collect(),
        };
        Ok(Encoder { writer: RowWriter::new(layout), row_bytes: 256 })
    }

    /// Encodes records that Python holds.
    fn encode<'py>(
        &mut self,
        py: Python<'py>,
        values: Vec<Option<PyBackedBytes>>,
        keys: Vec<Option<PyBackedBytes>>,
        partition: i32,
        offsets: Vec<i64>,
        timestamps: Vec<i64>,
    ) -> PyResult<Encoded<'py>> {
        if [keys.len(), offsets.len(), timestamps.len()] != [values.len(); 3] {
            return Err(PyValueError::new_err("the parts of a batch have different lengths"));
        }
        let record = |place: usize| Record {
            partition,
            offset: offsets[place],
            millis: timestamps[place],
            key: keys[place].as_deref(),
            value: values[place].as_deref(),
        };
        Ok(self.encode_records(py, values.len(), record))
    }

    /// Encodes records that the reader holds.
    fn encode_run<'py>(&mut self, py: Python<'py>, run: &Run) -> Encoded<'py> {
        let record = |place: usize| {
            let message = &run.messages[place];
            Record {
                partition: message.partition(),
                offset: message.offset(),
                millis: run.client.find_millis(message),
                key: message.key(),
                value: message.value(),
            }
        };
        self.encode_records(py, run.messages.len(), record)
    }
}

impl Encoder {
    fn encode_records<'py, 'a>(
        &mut self,
        py: Python<'py>,
        count: usize,
        record: impl Fn(usize) -> Record<'a> + Sync + Send,
    ) -> Encoded<'py> {
        let (out, uncertain, hash) = py.detach(|| {
            // A fault of this code must not stop the pipeline: the reference then decides about the whole batch.
            catch_unwind(AssertUnwindSafe(|| self.write_rows(count, &record)))
                .unwrap_or_else(|_| (vec![], (0..count).collect(), sum_hashes(count, &record)))
        });
        (PyBytes::new(py, &out), uncertain, hash as i64)
    }

    fn write_rows<'a>(&mut self, count: usize, record: &impl Fn(usize) -> Record<'a>) -> (Vec<u8>, Vec<usize>, u64) {
        // Without the bound a batch after a huge record could ask for more memory than there is, and end the process.
        let mut out = Vec::with_capacity((count * self.row_bytes).min(MOST_RESERVED));
        let mut uncertain = vec![];
        let mut hash = 0u64;
        for place in 0..count {
            let record = record(place);
            hash = hash.wrapping_add(hash_record(record.offset, record.key, record.value));
            if self.writer.write(&record, &mut out).is_err() {
                uncertain.push(place);
            }
        }
        self.row_bytes = out.len() / count.max(1) + 16;
        (out, uncertain, hash)
    }
}

fn sum_hashes<'a>(count: usize, record: &impl Fn(usize) -> Record<'a>) -> u64 {
    (0..count).map(record).fold(0, |sum, record| sum.wrapping_add(hash_record(record.offset, record.key, record.value)))
}

/// Encodes rows of Arrow's columns.
#[pyfunction]
pub fn encode_columns<'py>(
    py: Python<'py>,
    columns: Vec<arrow::Buffers>,
    count: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    Ok(PyBytes::new(py, &arrow::write_rows(&columns, count)?))
}

/// Reads rows of COPY into Arrow's columns.
#[pyfunction]
pub fn decode_columns<'py>(
    py: Python<'py>,
    rows: PyBackedBytes,
    count: usize,
    described: Vec<columns::Described>,
) -> PyResult<Vec<columns::Made<'py>>> {
    columns::read_rows(py, &rows, count, described)
}
