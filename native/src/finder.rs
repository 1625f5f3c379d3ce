//! Where the columns' values are in a record.

use crate::cursor::{Cursor, MISSING, Span, Sure, Token, Uncertain};
use crate::layout::{Column, Node, Object, Trees};

const NO_MEMBER: u16 = u16::MAX;

/// Finds the values of the columns, and remembers the order of members: that of one record is mostly that of the next.
pub struct Finder {
    /// By the object's number and the place in it: the member that stood there in an earlier record.
    orders: Vec<Vec<u16>>,
    /// Whether an object was in the record.
    seen: Vec<bool>,
    pub found: Vec<Span>,
}

impl Finder {
    pub fn new(columns: usize, objects: usize) -> Finder {
        Finder { orders: vec![vec![]; objects], seen: vec![false; objects], found: vec![MISSING; columns] }
    }

    /// Finds the values of all columns in `text`, which is UTF-8. A column without a value stays missing.
    #[inline(always)]
    pub fn find(&mut self, text: &[u8], trees: &Trees, columns: &[Column]) -> Sure<()> {
        self.found.fill(MISSING);
        self.seen.fill(false);
        for root in &trees.roots {
            let mut cursor = Cursor { text, at: 0 };
            cursor.skip_space();
            match root {
                // The whole value is null, not an object: the reference rejects it.
                Node::Object(_) if cursor.peek()? != b'{' => return Err(Uncertain),
                _ => self.read_node(&mut cursor, root, columns)?,
            }
            cursor.skip_space();
            if cursor.at != text.len() {
                return Err(Uncertain);
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn read_node(&mut self, cursor: &mut Cursor, node: &Node, columns: &[Column]) -> Sure<()> {
        match node {
            Node::Column(column) => self.read_column(cursor, *column, columns[*column]),
            Node::Object(object) => self.read_object(cursor, object, columns),
        }
    }

    #[inline(always)]
    fn read_column(&mut self, cursor: &mut Cursor, place: usize, column: Column) -> Sure<()> {
        if self.found[place].token != Token::Missing {
            return Err(Uncertain); // the member is there twice
        }
        self.found[place] =
            if column.kind.is_document() { cursor.read_document()? } else { cursor.read_scalar()?.ok_or(Uncertain)? };
        Ok(())
    }

    fn read_object(&mut self, cursor: &mut Cursor, object: &Object, columns: &[Column]) -> Sure<()> {
        if std::mem::replace(&mut self.seen[object.number], true) {
            return Err(Uncertain); // the member is there twice
        }
        if cursor.peek()? != b'{' {
            // The columns below null stay missing.
            return match cursor.read_scalar()? {
                Some(Span { token: Token::Null, .. }) => Ok(()),
                _ => Err(Uncertain),
            };
        }
        cursor.at += 1;
        cursor.skip_space();
        if cursor.peek()? == b'}' {
            cursor.at += 1;
            return Ok(());
        }
        for place in 0.. {
            cursor.skip_space();
            cursor.expect(b'"')?;
            let member = self.read_name(cursor, object, place)?;
            cursor.skip_space();
            cursor.expect(b':')?;
            cursor.skip_space();
            match member {
                Some(member) => self.read_node(cursor, &object.members[member].1, columns)?,
                None => cursor.skip_unneeded()?,
            }
            cursor.skip_space();
            let byte = cursor.peek()?;
            cursor.at += 1;
            if byte == b'}' {
                break;
            }
            if byte != b',' {
                return Err(Uncertain);
            }
        }
        Ok(())
    }

    /// Reads the name of a member up to its closing quote, and finds the member; `None` if no column is at it.
    #[inline(always)]
    fn read_name(&mut self, cursor: &mut Cursor, object: &Object, place: usize) -> Sure<Option<usize>> {
        let order = &mut self.orders[object.number];
        let guess = order.get(place).copied().unwrap_or(NO_MEMBER) as usize;
        if let Some((name, _)) = object.members.get(guess)
            && cursor.take_name(name)
        {
            return Ok(Some(guess));
        }
        let name = cursor.read_string()?;
        if name.token == Token::Escaped {
            return Err(Uncertain); // it may spell the name of a column
        }
        let found = object.members.iter().position(|(member, _)| member == name.of(cursor.text));
        if place < 4096 {
            if order.len() <= place {
                order.resize(place + 1, NO_MEMBER);
            }
            order[place] = found.map_or(NO_MEMBER, |member| member as u16);
        }
        Ok(found)
    }
}
