//! From a record to a row of PostgreSQL's binary COPY, column by column.

use crate::copy::{self, Out};
use crate::cursor::{Span, Sure, Token, Uncertain};
use crate::finder::Finder;
use crate::layout::{Column, Kind, Trees};
use crate::moments;
use crate::numbers;
use crate::texts;

/// PostgreSQL takes a field of up to 1 GB, and jsonb may need six times the size of its text.
const MAX_VALUE: usize = 64 * 1024 * 1024;

/// A record of Kafka.
pub struct Record<'a> {
    pub partition: i32,
    pub offset: i64,
    /// Milliseconds since 1970; -1 if the record has no timestamp.
    pub millis: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
}

/// How the key of a record is stored.
#[derive(Clone, Copy, PartialEq)]
pub enum Key {
    Left,
    Text,
    Bytes,
}

/// A declared index, and the columns of it that have no fixed width. `fields` are places in the row.
pub struct IndexLimit {
    pub most: usize,
    pub fields: Vec<usize>,
}

/// The columns of a row in their order: those of the declaration, and those that every row carries.
pub struct Layout {
    pub columns: Vec<Column>,
    pub trees: Trees,
    /// By column: the width to which PostgreSQL pads char(n).
    pub padded: Vec<Option<usize>>,
    pub load_id: i64,
    pub key: Key,
    pub keeps_tombstones: bool,
    pub limits: Vec<IndexLimit>,
}

impl Layout {
    fn count_fields(&self) -> usize {
        self.columns.len() + 4 + (self.key != Key::Left) as usize + self.keeps_tombstones as usize
    }
}

/// Writes the rows of one load.
pub struct RowWriter {
    layout: Layout,
    finder: Finder,
    /// By place in the row: the bytes of a field, as an index counts them.
    sizes: Vec<usize>,
}

impl RowWriter {
    pub fn new(layout: Layout) -> RowWriter {
        let finder = Finder::new(layout.columns.len(), layout.trees.objects);
        let sizes = if layout.limits.is_empty() { 0 } else { layout.count_fields() };
        RowWriter { layout, finder, sizes: vec![0; sizes] }
    }

    /// Writes the row of a record. On an error nothing is written: the reference decides about the record.
    #[inline(always)]
    pub fn write(&mut self, record: &Record, out: &mut Out) -> Sure<()> {
        let before = out.len();
        let written = self.try_write(record, out);
        if written.is_err() {
            out.truncate(before);
        }
        written
    }

    #[inline(always)]
    fn try_write(&mut self, record: &Record, out: &mut Out) -> Sure<()> {
        let value = record.value.ok_or(Uncertain)?;
        if value.len() > MAX_VALUE || std::str::from_utf8(value).is_err() {
            return Err(Uncertain);
        }
        self.finder.find(value, &self.layout.trees, &self.layout.columns)?;
        copy::begin_row(out, self.layout.count_fields());
        for place in 0..self.layout.columns.len() {
            let start = out.len() + 4;
            write_column(out, value, self.finder.found[place], self.layout.columns[place])?;
            if !self.sizes.is_empty() {
                self.sizes[place] = self.measure(place, &out[start..]);
            }
        }
        self.write_carried(record, out)?;
        self.check_limits()
    }

    #[inline(always)]
    fn write_carried(&mut self, record: &Record, out: &mut Out) -> Sure<()> {
        copy::write_i64(out, self.layout.load_id);
        copy::write_i32(out, record.partition);
        copy::write_i64(out, record.offset);
        if record.millis == -1 {
            copy::write_null(out);
        } else {
            copy::write_moment(out, moments::read_millis(record.millis)?);
        }
        if self.layout.key != Key::Left {
            self.write_key(record.key, out)?;
        }
        if self.layout.keeps_tombstones {
            copy::write_bool(out, false); // a record without value is left to the reference
        }
        Ok(())
    }

    fn write_key(&mut self, key: Option<&[u8]>, out: &mut Out) -> Sure<()> {
        match key {
            Some(key) if self.layout.key == Key::Text => {
                std::str::from_utf8(key).map_err(|_| Uncertain)?;
                texts::check_text(key, None)?;
                copy::write_bytes(out, key);
            }
            Some(key) => copy::write_bytes(out, key),
            None => copy::write_null(out),
        }
        if let Some(size) = self.sizes.get_mut(self.layout.columns.len() + 4) {
            *size = key.map_or(0, <[u8]>::len);
        }
        Ok(())
    }

    fn measure(&self, place: usize, field: &[u8]) -> usize {
        match self.layout.padded[place] {
            Some(width) if self.finder.found[place].token > Token::Null => {
                field.len() + width - texts::count_characters(field)
            }
            _ => field.len(),
        }
    }

    #[inline(always)]
    fn check_limits(&self) -> Sure<()> {
        let fits =
            |limit: &IndexLimit| limit.fields.iter().map(|place| self.sizes[*place]).sum::<usize>() <= limit.most;
        if self.layout.limits.iter().all(fits) { Ok(()) } else { Err(Uncertain) }
    }
}

#[inline(always)]
fn write_column(out: &mut Out, value: &[u8], span: Span, column: Column) -> Sure<()> {
    if span.token <= Token::Null {
        if column.required {
            return Err(Uncertain);
        }
        copy::write_null(out);
        return Ok(());
    }
    match column.kind {
        Kind::Smallint => copy::write_i16(out, numbers::read_whole(number(value, span)?, 16)? as i16),
        Kind::Integer => copy::write_i32(out, numbers::read_whole(number(value, span)?, 32)? as i32),
        Kind::Bigint => copy::write_i64(out, numbers::read_whole(number(value, span)?, 64)?),
        Kind::Real => copy::write_i32(out, numbers::read_real(number(value, span)?)?.to_bits() as i32),
        Kind::Double => copy::write_i64(out, numbers::read_double(number(value, span)?)?.to_bits() as i64),
        Kind::Numeric { precision, scale } => {
            // A number, or a string that holds one.
            let text = if span.token == Token::Plain { span.of(value) } else { number(value, span)? };
            let decimal = numbers::read_decimal(text)?;
            copy::write_numeric(out, decimal.is_negative, decimal.scale(precision, scale)?, scale);
        }
        Kind::Text { most } => {
            let text = texts::read_string(value, span)?;
            texts::check_text(&text, most)?;
            copy::write_bytes(out, &text);
        }
        Kind::Boolean => match span.token {
            Token::True => copy::write_bool(out, true),
            Token::False => copy::write_bool(out, false),
            _ => return Err(Uncertain),
        },
        Kind::Bytea => copy::write_bytes(out, &texts::decode_base64(plain(value, span)?)?),
        Kind::Date => copy::write_date(out, moments::read_date(plain(value, span)?)?),
        Kind::Time => copy::write_i64(out, moments::read_time(plain(value, span)?)?),
        Kind::Timestamp => copy::write_moment(out, moments::read_timestamp(plain(value, span)?)?),
        Kind::Timestamptz => copy::write_moment(out, moments::read_timestamptz(plain(value, span)?)?),
        Kind::Epoch { per_unit } => {
            let micros = numbers::read_decimal(number(value, span)?)?.floor(per_unit)?;
            copy::write_moment(out, moments::check_micros(micros)?);
        }
        Kind::Uuid => copy::write_bytes(out, &texts::read_uuid(plain(value, span)?)?),
        Kind::Json => copy::write_bytes(out, span.of(value)),
        Kind::Jsonb => copy::write_jsonb(out, span.of(value)),
    }
    Ok(())
}

#[inline(always)]
fn number(value: &[u8], span: Span) -> Sure<&[u8]> {
    if span.token == Token::Number { Ok(span.of(value)) } else { Err(Uncertain) }
}

#[inline(always)]
fn plain(value: &[u8], span: Span) -> Sure<&[u8]> {
    if span.token == Token::Plain { Ok(span.of(value)) } else { Err(Uncertain) }
}
