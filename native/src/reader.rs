//! The reader: messages of explicit offsets, in runs of one partition. `kafka/readers/native.py` decides what they mean.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::librdkafka::{Client, Message};

/// The most messages that are taken at once, and the number to begin with: their size is not known before. A take costs
/// little, so the first bound is low: it limits the bytes when large messages follow small ones.
const MOST_AT_ONCE: usize = 100;
const FIRST_AT_ONCE: usize = 4;

/// A header's name, and its value or none.
type Header<'py> = (Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>);

/// A consumer of explicit offsets.
#[pyclass]
pub struct Consumer {
    client: Option<Arc<Client>>,
    topic: String,
    /// The bytes of an average message among those that were taken last; none before the first.
    average: Option<usize>,
}

#[pymethods]
impl Consumer {
    #[new]
    fn new(library: &str, version: i32, settings: Vec<(String, String)>, topic: String) -> PyResult<Consumer> {
        let client = Client::open(library, version, &settings).map_err(PyRuntimeError::new_err)?;
        Ok(Consumer { client: Some(Arc::new(client)), topic, average: None })
    }

    /// Reads these partitions from now on, each from an offset.
    fn assign(&self, places: Vec<(i32, i64)>) -> PyResult<()> {
        self.client()?.assign(&self.topic, &places).map_err(PyRuntimeError::new_err)
    }

    /// Stops reading these partitions.
    fn unassign(&self, partitions: Vec<i32>) -> PyResult<()> {
        let places: Vec<_> = partitions.into_iter().map(|partition| (partition, 0)).collect();
        self.client()?.unassign(&self.topic, &places).map_err(PyRuntimeError::new_err)
    }

    /// Takes messages until there are `most`, or `most_bytes` of them, or the time is over.
    fn consume(&mut self, py: Python<'_>, most: usize, most_bytes: usize, seconds: f64) -> PyResult<Vec<Run>> {
        let client = self.client()?.clone();
        let average = &mut self.average;
        Ok(py.detach(|| {
            let taken = take(&client, average, most, most_bytes, Duration::from_secs_f64(seconds));
            split_runs(&client, taken)
        }))
    }

    /// Closes the consumer, as soon as no batch of its messages is in use.
    fn close(&mut self, py: Python<'_>) {
        let client = self.client.take();
        py.detach(|| drop(client));
    }
}

impl Consumer {
    fn client(&self) -> PyResult<&Arc<Client>> {
        self.client.as_ref().ok_or_else(|| PyRuntimeError::new_err("the consumer is closed"))
    }
}

/// Takes messages a few at a time, because only their count can be bounded before they are there.
fn take(client: &Client, average: &mut Option<usize>, most: usize, most_bytes: usize, time: Duration) -> Vec<Message> {
    let end = Instant::now() + time;
    let mut taken = vec![];
    let mut bytes = 0;
    loop {
        let wanted = match *average {
            Some(average) => ((most_bytes - bytes) / average.max(1)).clamp(1, MOST_AT_ONCE),
            None => FIRST_AT_ONCE,
        };
        let (before, count) = (taken.len(), wanted.min(most - taken.len()));
        client.take(count, end.saturating_duration_since(Instant::now()), &mut taken);
        let size = taken[before..].iter().map(size_of).sum::<usize>();
        bytes += size;
        if taken.len() > before {
            *average = Some(size / (taken.len() - before));
        }
        let is_late = taken.len() - before < count || Instant::now() >= end;
        if is_late || taken.len() >= most || bytes >= most_bytes {
            return taken;
        }
    }
}

fn size_of(message: &Message) -> usize {
    message.value().map_or(0, <[u8]>::len) + message.key().map_or(0, <[u8]>::len)
}

/// Splits messages into runs: records of one partition, or one message with an error.
fn split_runs(client: &Arc<Client>, taken: Vec<Message>) -> Vec<Run> {
    let mut runs: Vec<Run> = vec![];
    for message in taken {
        match runs.last_mut() {
            Some(run) if message.is_record() && run.error.is_none() && run.partition == message.partition() => {
                run.messages.push(message);
            }
            _ => runs.push(Run {
                partition: message.partition(),
                error: client.find_error(&message),
                offset: message.offset(),
                messages: vec![message],
                client: client.clone(),
            }),
        }
    }
    runs
}

/// Records of one partition in the order of their offsets, or one message with an error.
#[pyclass]
pub struct Run {
    #[pyo3(get)]
    partition: i32,
    /// The code and the text of the error.
    #[pyo3(get)]
    error: Option<(i32, String)>,
    /// The offset of the first message.
    #[pyo3(get)]
    offset: i64,
    pub messages: Vec<Message>,
    pub client: Arc<Client>,
}

#[pymethods]
impl Run {
    fn __len__(&self) -> usize {
        self.messages.len()
    }

    /// Drops the records from an offset on, and returns the offset of the first of them.
    fn cut(&mut self, until: i64) -> Option<i64> {
        let place = self.messages.iter().position(|message| message.offset() >= until)?;
        let offset = self.messages[place].offset();
        self.messages.drain(place..).for_each(|message| self.client.destroy(message));
        Some(offset)
    }

    /// The offset of the last message.
    #[getter]
    fn last_offset(&self) -> Option<i64> {
        self.messages.last().map(Message::offset)
    }

    /// The offsets, as numbers of eight bytes.
    fn offsets<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let offsets: Vec<u8> = self.messages.iter().flat_map(|message| message.offset().to_ne_bytes()).collect();
        PyBytes::new(py, &offsets)
    }

    /// Milliseconds since 1970, as numbers of eight bytes; -1 for a record without a timestamp.
    fn timestamps<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let of = |message| self.client.find_millis(message).to_ne_bytes();
        let millis: Vec<u8> = self.messages.iter().flat_map(of).collect();
        PyBytes::new(py, &millis)
    }

    fn value<'py>(&self, py: Python<'py>, place: usize) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.message(place)?.value().map(|value| PyBytes::new(py, value)))
    }

    fn key<'py>(&self, py: Python<'py>, place: usize) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.message(place)?.key().map(|key| PyBytes::new(py, key)))
    }

    /// The names and values of a record's headers.
    fn headers<'py>(&self, py: Python<'py>, place: usize) -> PyResult<Vec<Header<'py>>> {
        let found = self.client.find_headers(self.message(place)?);
        let make = |bytes: Vec<u8>| PyBytes::new(py, &bytes);
        Ok(found.into_iter().map(|(name, value)| (make(name), value.map(make))).collect())
    }
}

impl Run {
    fn message(&self, place: usize) -> PyResult<&Message> {
        self.messages.get(place).ok_or_else(|| pyo3::exceptions::PyIndexError::new_err("no such record"))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        for message in self.messages.drain(..) {
            self.client.destroy(message);
        }
    }
}
