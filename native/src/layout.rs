//! The declared columns of a pipeline, as far as a row needs them: their types, and the tree of their paths.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// How a column's JSON is read and written. Each kind has a rule in `row.rs`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    Smallint,
    Integer,
    Bigint,
    Real,
    Double,
    Numeric {
        precision: u32,
        scale: u32,
    },
    Text {
        most: Option<usize>,
    },
    Boolean,
    Bytea,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    /// A timestamp that is written as a number; so many microseconds are one unit.
    Epoch {
        per_unit: i64,
    },
    Uuid,
    Json,
    Jsonb,
}

impl Kind {
    /// The kind of a declared type. `first` is its precision or its length, `second` its scale.
    pub fn of(family: &str, first: u32, second: u32, unit: Option<&str>) -> PyResult<Kind> {
        Ok(match (family, unit) {
            ("timestamp" | "timestamptz", Some(unit)) => Kind::Epoch { per_unit: per_unit(unit)? },
            (_, Some(_)) => return Err(unknown(family)),
            ("smallint", _) => Kind::Smallint,
            ("integer", _) => Kind::Integer,
            ("bigint", _) => Kind::Bigint,
            ("real", _) => Kind::Real,
            ("double", _) => Kind::Double,
            ("numeric", _) => Kind::Numeric { precision: first, scale: second },
            ("text", _) => Kind::Text { most: None },
            ("varchar" | "char", _) => Kind::Text { most: Some(first as usize) },
            ("boolean", _) => Kind::Boolean,
            ("bytea", _) => Kind::Bytea,
            ("date", _) => Kind::Date,
            ("time", _) => Kind::Time,
            ("timestamp", _) => Kind::Timestamp,
            ("timestamptz", _) => Kind::Timestamptz,
            ("uuid", _) => Kind::Uuid,
            ("json", _) => Kind::Json,
            ("jsonb", _) => Kind::Jsonb,
            _ => return Err(unknown(family)),
        })
    }

    /// Whether the column takes any JSON, as text.
    pub fn is_document(self) -> bool {
        matches!(self, Kind::Json | Kind::Jsonb)
    }
}

fn per_unit(unit: &str) -> PyResult<i64> {
    match unit {
        "s" => Ok(1_000_000),
        "ms" => Ok(1_000),
        "us" => Ok(1),
        _ => Err(unknown(unit)),
    }
}

fn unknown(name: &str) -> PyErr {
    PyValueError::new_err(format!("unknown to the record path in Rust: {name}"))
}

/// A declared column.
#[derive(Clone, Copy)]
pub struct Column {
    pub kind: Kind,
    pub required: bool,
}

/// A step of the paths: a column's value, or an object with further steps below it.
pub enum Node {
    Column(usize),
    Object(Object),
}

/// An object that holds columns. `number` counts the objects of all trees.
pub struct Object {
    pub number: usize,
    pub members: Vec<(Vec<u8>, Node)>,
}

/// The paths of all columns. A path at or below another one is in a tree of its own, as `make_passes` has it in Python.
pub struct Trees {
    pub roots: Vec<Node>,
    pub objects: usize,
}

impl Trees {
    pub fn new(paths: &[Vec<String>]) -> Trees {
        let mut trees = Trees { roots: vec![], objects: 0 };
        for (column, path) in paths.iter().enumerate() {
            match trees.roots.iter().position(|root| has_room(root, path)) {
                Some(place) => add(&mut trees.roots[place], path, column, &mut trees.objects),
                None => {
                    let mut root = make_node(path, column, &mut trees.objects);
                    add(&mut root, path, column, &mut trees.objects);
                    trees.roots.push(root);
                }
            }
        }
        trees
    }
}

fn has_room(node: &Node, path: &[String]) -> bool {
    match (node, path.split_first()) {
        (Node::Column(_), _) | (Node::Object(_), None) => false,
        (Node::Object(object), Some((step, rest))) => object
            .members
            .iter()
            .find(|(name, _)| name == step.as_bytes())
            .is_none_or(|(_, child)| has_room(child, rest)),
    }
}

fn make_node(path: &[String], column: usize, objects: &mut usize) -> Node {
    if path.is_empty() {
        return Node::Column(column);
    }
    *objects += 1;
    Node::Object(Object { number: *objects - 1, members: vec![] })
}

fn add(node: &mut Node, path: &[String], column: usize, objects: &mut usize) {
    let (Node::Object(object), Some((step, rest))) = (node, path.split_first()) else { return };
    let place = match object.members.iter().position(|(name, _)| name == step.as_bytes()) {
        Some(place) => place,
        None => {
            object.members.push((step.as_bytes().to_vec(), make_node(rest, column, objects)));
            object.members.len() - 1
        }
    };
    add(&mut object.members[place].1, rest, column, objects);
}
