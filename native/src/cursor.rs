//! One strict pass over JSON text that is known to be UTF-8.
//!
//! The cursor takes a subset of what the reference in Python takes. Anything else is `Uncertain`, and the reference
//! decides.

/// The reference decides about this record.
#[derive(Debug, PartialEq)]
pub struct Uncertain;
pub type Sure<T> = Result<T, Uncertain>;

/// The kind of text that begins at a place. The kinds without a value come first.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub enum Token {
    Missing,
    Null,
    True,
    False,
    Number,
    /// A string without a backslash, from its first character to its last.
    Plain,
    /// A string with a backslash.
    Escaped,
    /// Any JSON.
    Document,
}

/// A value in the text. A value of the log has at most 64 MiB.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub token: Token,
    pub from: u32,
    pub until: u32,
}

pub const MISSING: Span = Span { token: Token::Missing, from: 0, until: 0 };
/// The reference nests deeper.
const MAX_DEPTH: u32 = 64;
/// The reference looks at the digits of longer numbers one by one.
const MAX_DIGITS: usize = 900;

impl Span {
    #[inline(always)]
    pub fn of<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.from as usize..self.until as usize]
    }
}

/// A place in a text.
pub struct Cursor<'a> {
    pub text: &'a [u8],
    pub at: usize,
}

impl<'a> Cursor<'a> {
    #[inline(always)]
    pub fn peek(&self) -> Sure<u8> {
        self.text.get(self.at).copied().ok_or(Uncertain)
    }

    #[inline(always)]
    pub fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    #[inline(always)]
    pub fn expect(&mut self, byte: u8) -> Sure<()> {
        if self.peek()? != byte {
            return Err(Uncertain);
        }
        self.at += 1;
        Ok(())
    }

    /// Moves past `name"` if the text continues so.
    #[inline(always)]
    pub fn take_name(&mut self, name: &[u8]) -> bool {
        let rest = &self.text[self.at..];
        let found = rest.len() > name.len() && rest[name.len()] == b'"' && &rest[..name.len()] == name;
        if found {
            self.at += name.len() + 1;
        }
        found
    }

    /// Reads a scalar; `None` if an object or an array begins here.
    #[inline(always)]
    pub fn read_scalar(&mut self) -> Sure<Option<Span>> {
        let from = self.at;
        let token = match self.peek()? {
            b'"' => {
                self.at += 1;
                return self.read_string().map(Some);
            }
            b'-' | b'0'..=b'9' => {
                self.skip_number()?;
                Token::Number
            }
            b'n' => self.read_word(b"null", Token::Null)?,
            b't' => self.read_word(b"true", Token::True)?,
            b'f' => self.read_word(b"false", Token::False)?,
            _ => return Ok(None),
        };
        Ok(Some(Span { token, from: from as u32, until: self.at as u32 }))
    }

    fn read_word(&mut self, word: &[u8], token: Token) -> Sure<Token> {
        if !self.text[self.at..].starts_with(word) {
            return Err(Uncertain);
        }
        self.at += word.len();
        Ok(token)
    }

    /// Reads a string from behind its opening quote to behind its closing quote. Escapes are not checked yet.
    #[inline(always)]
    pub fn read_string(&mut self) -> Sure<Span> {
        let from = self.at as u32;
        let mut token = Token::Plain;
        loop {
            self.skip_plain();
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Ok(Span { token, from, until: self.at as u32 - 1 });
                }
                b'\\' => {
                    token = Token::Escaped;
                    self.at += 2;
                }
                0..0x20 => return Err(Uncertain),
                _ => self.at += 1,
            }
        }
    }

    /// Moves eight bytes at a time, as long as none of them is a quote, a backslash or a control character.
    #[inline(always)]
    fn skip_plain(&mut self) {
        const ONES: u64 = u64::MAX / 255;
        const HIGH: u64 = ONES << 7;
        let is_below = |word: u64, least: u64| word.wrapping_sub(ONES * least) & !word & HIGH;
        while let Some(eight) = self.text[self.at.min(self.text.len())..].first_chunk::<8>() {
            let word = u64::from_le_bytes(*eight);
            let quote = is_below(word ^ (ONES * b'"' as u64), 1);
            let backslash = is_below(word ^ (ONES * b'\\' as u64), 1);
            if quote | backslash | is_below(word, 0x20) != 0 {
                return;
            }
            self.at += 8;
        }
    }

    #[inline(always)]
    fn skip_digits(&mut self) -> usize {
        let from = self.at;
        while let Some(b'0'..=b'9') = self.text.get(self.at) {
            self.at += 1;
        }
        self.at - from
    }

    /// Moves past a number. Returns whether it has an exponent or very many digits.
    #[inline(always)]
    fn skip_number(&mut self) -> Sure<bool> {
        let from = self.at;
        if self.peek()? == b'-' {
            self.at += 1;
        }
        let first = self.peek()?;
        let whole = self.skip_digits();
        if whole == 0 || (first == b'0' && whole > 1) {
            return Err(Uncertain);
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            if self.skip_digits() == 0 {
                return Err(Uncertain);
            }
        }
        let has_exponent = matches!(self.text.get(self.at), Some(b'e' | b'E'));
        if has_exponent {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            if self.skip_digits() == 0 {
                return Err(Uncertain);
            }
        }
        Ok(has_exponent || self.at - from > MAX_DIGITS)
    }

    /// Reads any JSON that json and jsonb can hold, as text.
    pub fn read_document(&mut self) -> Sure<Span> {
        let from = self.at;
        self.skip_value(true, 0)?;
        let is_null = &self.text[from..self.at] == b"null";
        let token = if is_null { Token::Null } else { Token::Document };
        Ok(Span { token, from: from as u32, until: self.at as u32 })
    }

    /// Moves past a value that no column needs.
    #[inline(always)]
    pub fn skip_unneeded(&mut self) -> Sure<()> {
        self.skip_value(false, 0)
    }

    /// Checks a value all the same. `kept` values are stored: jsonb holds no NUL, and numbers within limits.
    fn skip_value(&mut self, kept: bool, depth: u32) -> Sure<()> {
        match self.peek()? {
            b'"' => {
                self.at += 1;
                self.skip_string(kept)
            }
            b'-' | b'0'..=b'9' => {
                let is_unusual = self.skip_number()?;
                if kept && is_unusual { Err(Uncertain) } else { Ok(()) }
            }
            b'{' if depth < MAX_DEPTH => self.skip_members(b'}', kept, depth),
            b'[' if depth < MAX_DEPTH => self.skip_members(b']', kept, depth),
            _ => self.read_scalar()?.map(|_| ()).ok_or(Uncertain),
        }
    }

    fn skip_string(&mut self, kept: bool) -> Sure<()> {
        let span = self.read_string()?;
        if span.token == Token::Escaped {
            check_escapes(span.of(self.text), kept)?;
        }
        Ok(())
    }

    fn skip_members(&mut self, close: u8, kept: bool, depth: u32) -> Sure<()> {
        self.at += 1;
        self.skip_space();
        if self.peek()? == close {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.skip_space();
            if close == b'}' {
                self.expect(b'"')?;
                self.skip_string(kept)?;
                self.skip_space();
                self.expect(b':')?;
                self.skip_space();
            }
            self.skip_value(kept, depth + 1)?;
            self.skip_space();
            let byte = self.peek()?;
            self.at += 1;
            if byte == close {
                return Ok(());
            }
            if byte != b',' {
                return Err(Uncertain);
            }
        }
    }
}

/// Checks the escapes of a string; a string that is `kept` may hold no NUL.
fn check_escapes(raw: &[u8], kept: bool) -> Sure<()> {
    let mut has_nul = false;
    for_each_char(raw, |text| has_nul |= text.contains(&0))?;
    if kept && has_nul { Err(Uncertain) } else { Ok(()) }
}

/// The text of a string with escapes.
pub fn unescape(raw: &[u8]) -> Sure<Vec<u8>> {
    let mut text = Vec::with_capacity(raw.len());
    for_each_char(raw, |piece| text.extend_from_slice(piece))?;
    Ok(text)
}

fn for_each_char(raw: &[u8], mut give: impl FnMut(&[u8])) -> Sure<()> {
    let mut rest = raw;
    while let Some(place) = rest.iter().position(|byte| *byte == b'\\') {
        give(&rest[..place]);
        let escape = *rest.get(place + 1).ok_or(Uncertain)?;
        rest = &rest[place + 2..];
        match escape {
            b'"' | b'\\' | b'/' => give(&[escape]),
            b'b' => give(b"\x08"),
            b'f' => give(b"\x0c"),
            b'n' => give(b"\n"),
            b'r' => give(b"\r"),
            b't' => give(b"\t"),
            b'u' => {
                let (char, after) = read_unicode(rest)?;
                give(char.encode_utf8(&mut [0; 4]).as_bytes());
                rest = after;
            }
            _ => return Err(Uncertain),
        }
    }
    give(rest);
    Ok(())
}

/// Reads the digits behind `\u`, and the second half of a surrogate pair.
fn read_unicode(raw: &[u8]) -> Sure<(char, &[u8])> {
    let high = read_hex(raw)?;
    if !(0xd800..0xdc00).contains(&high) {
        return Ok((char::from_u32(high).ok_or(Uncertain)?, &raw[4..]));
    }
    let second = raw[4..].strip_prefix(b"\\u").ok_or(Uncertain)?;
    let low = read_hex(second)?;
    if !(0xdc00..0xe000).contains(&low) {
        return Err(Uncertain);
    }
    let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    Ok((char::from_u32(code).ok_or(Uncertain)?, &second[4..]))
}

fn read_hex(raw: &[u8]) -> Sure<u32> {
    let digits = raw.first_chunk::<4>().ok_or(Uncertain)?;
    digits.iter().try_fold(0, |sum, digit| Ok(sum * 16 + (*digit as char).to_digit(16).ok_or(Uncertain)?))
}
