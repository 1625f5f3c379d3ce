//! Rows of PostgreSQL's binary COPY as Arrow's columns, for a transform: the way back from what the encoder has written.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::copy::{BASE, DAYS_TO_2000, MICROS_TO_2000, NEGATIVE};

/// A column's family, the bytes of one of its values in Arrow (0 where they differ, and for bits), and its scale.
pub type Described = (String, usize, u32);
/// The buffers of a column: validity, offsets or none, data; and how many values are null.
pub type Made<'py> = (Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>, Bound<'py, PyBytes>, usize);

/// Reads `count` rows.
pub fn read_rows<'py>(
    py: Python<'py>,
    rows: &[u8],
    count: usize,
    described: Vec<Described>,
) -> PyResult<Vec<Made<'py>>> {
    let columns = py.detach(|| {
        let mut columns: Vec<Column> = described.into_iter().map(|column| Column::new(column, count)).collect();
        let mut rest = Rest(rows);
        for row in 0..count {
            rest.take(2)?; // the number of fields
            for column in &mut columns {
                column.read(row, &mut rest)?;
            }
        }
        Some(columns)
    });
    let columns = columns.ok_or_else(|| PyValueError::new_err("the rows do not have these columns"))?;
    Ok(columns.into_iter().map(|column| column.make(py)).collect())
}

/// The bytes that are not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    #[inline(always)]
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    #[inline(always)]
    fn take_length(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(*self.take(4)?.first_chunk()?))
    }
}

/// How the bytes of a field become those of Arrow.
#[derive(Clone, Copy)]
enum Way {
    Bit,
    Reversed,
    Day,
    Moment,
    Numeric { scale: u32 },
    Copied,
}

struct Column {
    way: Way,
    width: usize,
    validity: Vec<u8>,
    offsets: Option<Vec<u8>>,
    data: Vec<u8>,
    nulls: usize,
}

impl Column {
    fn new((family, width, scale): Described, count: usize) -> Column {
        let way = match family.as_str() {
            "boolean" => Way::Bit,
            "smallint" | "integer" | "bigint" | "real" | "double" | "time" => Way::Reversed,
            "date" => Way::Day,
            "timestamp" | "timestamptz" => Way::Moment,
            "numeric" => Way::Numeric { scale },
            _ => Way::Copied,
        };
        let has_offsets = width == 0 && !matches!(way, Way::Bit);
        let offsets = has_offsets.then(|| {
            let mut offsets = Vec::with_capacity(4 * (count + 1));
            offsets.extend_from_slice(&[0; 4]);
            offsets
        });
        let bits = count.div_ceil(8);
        let data = if matches!(way, Way::Bit) { vec![0; bits] } else { Vec::with_capacity(count * width.max(8)) };
        Column { way, width, validity: vec![0xff; bits], offsets, data, nulls: 0 }
    }

    /// Reads the field of a row; `None` if the bytes are not those of such a field.
    #[inline(always)]
    fn read(&mut self, row: usize, rest: &mut Rest) -> Option<()> {
        let length = rest.take_length()?;
        if length < 0 {
            self.validity[row / 8] &= !(1 << (row % 8));
            self.nulls += 1;
            self.data.resize(self.data.len() + self.width, 0);
        } else {
            let field = rest.take(length as usize)?;
            match self.way {
                Way::Bit => self.data[row / 8] |= (*field.first()? & 1) << (row % 8),
                Way::Reversed if field.len() == self.width => self.data.extend(field.iter().rev()),
                Way::Reversed => return None,
                Way::Day => self.write(&(i32::from_be_bytes(*field.first_chunk()?) + DAYS_TO_2000).to_le_bytes()),
                Way::Moment => self.write(&(i64::from_be_bytes(*field.first_chunk()?) + MICROS_TO_2000).to_le_bytes()),
                Way::Numeric { scale } => self.write_decimal(read_numeric(field, scale)?),
                Way::Copied => self.write(field),
            }
        }
        if let Some(offsets) = &mut self.offsets {
            offsets.extend_from_slice(&i32::try_from(self.data.len()).ok()?.to_le_bytes());
        }
        Some(())
    }

    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
    }

    /// Writes a decimal of 128 or of 256 bits.
    fn write_decimal(&mut self, (is_negative, digits): (bool, u128)) {
        let low = if is_negative { digits.wrapping_neg() } else { digits };
        self.write(&low.to_le_bytes());
        if self.width == 32 {
            let sign = if is_negative && digits > 0 { 0xff } else { 0 };
            self.write(&[sign; 16]);
        }
    }

    fn make(self, py: Python<'_>) -> Made<'_> {
        let bytes = |buffer: &[u8]| PyBytes::new(py, buffer);
        (bytes(&self.validity), self.offsets.as_deref().map(bytes), bytes(&self.data), self.nulls)
    }
}

/// Reads a numeric as a number of units of 10^-`scale`. The encoder writes none of more than 38 digits.
fn read_numeric(field: &[u8], scale: u32) -> Option<(bool, u128)> {
    let (head, rest) = field.split_first_chunk::<8>()?;
    let word = |place: usize| u16::from_be_bytes([head[place], head[place + 1]]);
    let (groups, weight) = (rest.as_chunks::<2>().0, word(2) as i16 as i32);
    let Some((last, first)) = groups.split_last() else { return Some((false, 0)) };
    let mut digits = 0u128;
    for group in first {
        digits = digits.checked_mul(BASE as u128)?.checked_add(u16::from_be_bytes(*group) as u128)?;
    }
    // The lowest group may hold fewer than four digits of the fraction, and zeros behind them.
    let power = 4 * (weight - first.len() as i32) + scale as i32;
    let last = u16::from_be_bytes(*last) as u128;
    let shift = |number: u128, power: i32| match power {
        _ if number == 0 => Some(0),
        0.. => number.checked_mul(10u128.checked_pow(power as u32)?),
        _ => Some(number / 10u128.checked_pow(power.unsigned_abs())?),
    };
    Some((word(4) == NEGATIVE, shift(digits, power + 4)?.checked_add(shift(last, power)?)?))
}
