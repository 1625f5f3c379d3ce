//! The librdkafka that the confluent_kafka package has loaded into this process.
//!
//! This is the only file with unsafe code: it calls the C library, and reads the memory of its messages.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{NonNull, null_mut};
use std::time::Duration;

/// The code of a message without headers.
const NO_HEADERS: c_int = -156;
const CONSUMER: c_int = 1;
const ERROR_BYTES: usize = 512;
/// The layout of a message and the meaning of the functions below are those of librdkafka 2.
const MAJOR_VERSION: c_int = 2;

/// A message as the header file of librdkafka 2 declares it.
#[repr(C)]
struct RawMessage {
    error: c_int,
    topic: *mut c_void,
    partition: i32,
    payload: *const u8,
    length: usize,
    key: *const u8,
    key_length: usize,
    offset: i64,
    private: *mut c_void,
}

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of librdkafka that are needed here, with the signatures of its header file.
        struct Functions { $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        impl Functions {
            fn find(library: NonNull<c_void>) -> Result<Functions, String> {
                Ok(Functions { $($name: {
                    let name = concat!(stringify!($name), "\0");
                    // SAFETY: the library is open for the rest of the process, and the name ends with a NUL.
                    let found = unsafe { libc::dlsym(library.as_ptr(), name.as_ptr().cast()) };
                    if found.is_null() {
                        return Err(concat!("librdkafka has no function ", stringify!($name)).into());
                    }
                    // SAFETY: the function of this name has this signature in librdkafka 2.
                    unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(found) }
                },)* })
            }
        }
    };
}

functions! {
    rd_kafka_version: fn() -> c_int;
    rd_kafka_conf_new: fn() -> *mut c_void;
    rd_kafka_conf_set: fn(*mut c_void, *const c_char, *const c_char, *mut c_char, usize) -> c_int;
    rd_kafka_conf_destroy: fn(*mut c_void);
    rd_kafka_new: fn(c_int, *mut c_void, *mut c_char, usize) -> *mut c_void;
    rd_kafka_poll_set_consumer: fn(*mut c_void) -> c_int;
    rd_kafka_queue_get_consumer: fn(*mut c_void) -> *mut c_void;
    rd_kafka_queue_destroy: fn(*mut c_void);
    rd_kafka_consumer_close: fn(*mut c_void) -> c_int;
    rd_kafka_destroy: fn(*mut c_void);
    rd_kafka_topic_partition_list_new: fn(c_int) -> *mut c_void;
    rd_kafka_topic_partition_list_add: fn(*mut c_void, *const c_char, i32) -> *mut c_void;
    rd_kafka_topic_partition_list_set_offset: fn(*mut c_void, *const c_char, i32, i64) -> c_int;
    rd_kafka_topic_partition_list_destroy: fn(*mut c_void);
    rd_kafka_assign: fn(*mut c_void, *const c_void) -> c_int;
    rd_kafka_incremental_unassign: fn(*mut c_void, *const c_void) -> *mut c_void;
    rd_kafka_error_destroy: fn(*mut c_void);
    rd_kafka_err2str: fn(c_int) -> *const c_char;
    rd_kafka_consume_batch_queue: fn(*mut c_void, c_int, *mut *mut RawMessage, usize) -> isize;
    rd_kafka_message_errstr: fn(*const RawMessage) -> *const c_char;
    rd_kafka_message_timestamp: fn(*const RawMessage, *mut c_int) -> i64;
    rd_kafka_message_headers: fn(*const RawMessage, *mut *mut c_void) -> c_int;
    rd_kafka_header_get_all: fn(*const c_void, usize, *mut *const c_char, *mut *const u8, *mut usize) -> c_int;
    rd_kafka_message_destroy: fn(*mut RawMessage);
}

/// A consumer with its queue. It is closed when the last batch of its messages is gone.
pub struct Client {
    functions: Functions,
    handle: NonNull<c_void>,
    queue: NonNull<c_void>,
}

// SAFETY: librdkafka locks a handle and a queue itself; its functions may be called from any thread.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

impl Client {
    /// Opens a consumer by the library at `path`, which this process must have loaded already, in this version.
    pub fn open(path: &str, version: i32, settings: &[(String, String)]) -> Result<Client, String> {
        let path = terminate(path)?;
        // SAFETY: the path ends with a NUL. With RTLD_NOLOAD no code runs: the library is loaded, or none is found.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        let functions = Functions::find(NonNull::new(library).ok_or("librdkafka is not loaded")?)?;
        // SAFETY: the function takes no argument.
        let found = unsafe { (functions.rd_kafka_version)() };
        if found != version || found >> 24 != MAJOR_VERSION {
            return Err(format!("librdkafka has version {found:x}, and {version:x} was expected"));
        }
        let conf = functions.make_conf(settings)?;
        let mut reason = [0; ERROR_BYTES];
        // SAFETY: `conf` is a fresh configuration, and `reason` has the given size.
        let handle = unsafe { (functions.rd_kafka_new)(CONSUMER, conf, reason.as_mut_ptr(), ERROR_BYTES) };
        let Some(handle) = NonNull::new(handle) else {
            // SAFETY: a failed rd_kafka_new leaves the configuration to its caller.
            unsafe { (functions.rd_kafka_conf_destroy)(conf) };
            return Err("librdkafka made no consumer".into());
        };
        // SAFETY: the handle is a consumer, and it lives as long as the client.
        let queue = unsafe {
            (functions.rd_kafka_poll_set_consumer)(handle.as_ptr());
            (functions.rd_kafka_queue_get_consumer)(handle.as_ptr())
        };
        let queue = NonNull::new(queue).ok_or("librdkafka made no queue")?;
        Ok(Client { functions, handle, queue })
    }

    /// Reads these partitions of a topic, each from an offset.
    pub fn assign(&self, topic: &str, places: &[(i32, i64)]) -> Result<(), String> {
        let list = self.functions.make_list(topic, places)?;
        // SAFETY: the handle is open, and the list is a fresh one, which librdkafka copies.
        let code = unsafe {
            let code = (self.functions.rd_kafka_assign)(self.handle.as_ptr(), list);
            (self.functions.rd_kafka_topic_partition_list_destroy)(list);
            code
        };
        // SAFETY: librdkafka returns a static text for any code.
        if code == 0 { Ok(()) } else { Err(unsafe { read_text((self.functions.rd_kafka_err2str)(code)) }) }
    }

    /// Stops reading these partitions.
    pub fn unassign(&self, topic: &str, places: &[(i32, i64)]) -> Result<(), String> {
        let list = self.functions.make_list(topic, places)?;
        // SAFETY: as in `assign`; a returned error belongs to the caller.
        unsafe {
            let error = (self.functions.rd_kafka_incremental_unassign)(self.handle.as_ptr(), list);
            (self.functions.rd_kafka_topic_partition_list_destroy)(list);
            if !error.is_null() {
                (self.functions.rd_kafka_error_destroy)(error);
                return Err("a partition was not assigned".into());
            }
        }
        Ok(())
    }

    /// Takes up to `most` messages from the queue, and waits for them for at most `timeout`.
    pub fn take(&self, most: usize, timeout: Duration, into: &mut Vec<Message>) {
        let mut taken: Vec<*mut RawMessage> = Vec::with_capacity(most);
        // SAFETY: the vector has room for `most` pointers. librdkafka writes as many as it returns; -1 is an error.
        unsafe {
            let count = (self.functions.rd_kafka_consume_batch_queue)(
                self.queue.as_ptr(),
                timeout.as_millis() as c_int,
                taken.as_mut_ptr(),
                most,
            );
            taken.set_len(count.max(0) as usize);
        }
        into.extend(taken.into_iter().filter_map(NonNull::new).map(Message));
    }

    /// The error that a message stands for: its code and its text.
    pub fn find_error(&self, message: &Message) -> Option<(i32, String)> {
        let code = message.raw().error;
        // SAFETY: the message is alive; librdkafka's text lives as long as the message.
        (code != 0).then(|| (code, unsafe { read_text((self.functions.rd_kafka_message_errstr)(message.raw())) }))
    }

    /// Milliseconds since 1970; -1 if the message has no timestamp.
    pub fn find_millis(&self, message: &Message) -> i64 {
        // SAFETY: the message is alive; the type of the timestamp may be left out.
        unsafe { (self.functions.rd_kafka_message_timestamp)(message.raw(), null_mut()) }
    }

    /// The headers of a message in their order.
    pub fn find_headers(&self, message: &Message) -> Vec<Header> {
        let mut headers = null_mut();
        // SAFETY: the message is alive. Its headers belong to it.
        let code = unsafe { (self.functions.rd_kafka_message_headers)(message.raw(), &mut headers) };
        if code == NO_HEADERS || headers.is_null() {
            return vec![];
        }
        (0..).map_while(|place| self.find_header(headers, place)).collect()
    }

    fn find_header(&self, headers: *const c_void, place: usize) -> Option<Header> {
        let (mut name, mut value, mut length) = (std::ptr::null(), std::ptr::null(), 0);
        // SAFETY: `headers` belongs to a message that is alive; so do the name and the value.
        unsafe {
            let code = (self.functions.rd_kafka_header_get_all)(headers, place, &mut name, &mut value, &mut length);
            let name = (code == 0).then(|| CStr::from_ptr(name).to_bytes().to_vec())?;
            Some((name, read_bytes(value, length).map(<[u8]>::to_vec)))
        }
    }

    /// Gives a message back.
    pub fn destroy(&self, message: Message) {
        // SAFETY: the message came from this client, and its owner has given it up.
        unsafe { (self.functions.rd_kafka_message_destroy)(message.0.as_ptr()) }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: no message is left, because each batch of messages keeps the client alive. Nothing is used after this.
        unsafe {
            (self.functions.rd_kafka_queue_destroy)(self.queue.as_ptr());
            (self.functions.rd_kafka_consumer_close)(self.handle.as_ptr());
            (self.functions.rd_kafka_destroy)(self.handle.as_ptr());
        }
    }
}

impl Functions {
    fn make_conf(&self, settings: &[(String, String)]) -> Result<*mut c_void, String> {
        // SAFETY: the function takes no argument.
        let conf = unsafe { (self.rd_kafka_conf_new)() };
        for (name, value) in settings {
            let (name_text, value_text) = (terminate(name)?, terminate(value)?);
            let mut reason = [0; ERROR_BYTES];
            // SAFETY: all texts end with a NUL, and `reason` has the given size.
            let code = unsafe {
                (self.rd_kafka_conf_set)(
                    conf,
                    name_text.as_ptr(),
                    value_text.as_ptr(),
                    reason.as_mut_ptr(),
                    ERROR_BYTES,
                )
            };
            if code != 0 {
                // SAFETY: the configuration was made above, and nothing else uses it.
                unsafe { (self.rd_kafka_conf_destroy)(conf) };
                return Err(format!("librdkafka refuses the setting {name}")); // its reason quotes the value
            }
        }
        Ok(conf)
    }

    fn make_list(&self, topic: &str, places: &[(i32, i64)]) -> Result<*mut c_void, String> {
        let topic = terminate(topic)?;
        // SAFETY: the list is fresh; the topic ends with a NUL and is copied.
        unsafe {
            let list = (self.rd_kafka_topic_partition_list_new)(places.len() as c_int);
            for (partition, offset) in places {
                (self.rd_kafka_topic_partition_list_add)(list, topic.as_ptr(), *partition);
                (self.rd_kafka_topic_partition_list_set_offset)(list, topic.as_ptr(), *partition, *offset);
            }
            Ok(list)
        }
    }
}

/// A header's name, and its value or null.
pub type Header = (Vec<u8>, Option<Vec<u8>>);

/// A message that a client has taken from its queue, and that goes back to the client in the end.
pub struct Message(NonNull<RawMessage>);

// SAFETY: a message belongs to no thread, and nothing changes it.
unsafe impl Send for Message {}
// SAFETY: as above.
unsafe impl Sync for Message {}

impl Message {
    #[inline(always)]
    fn raw(&self) -> &RawMessage {
        // SAFETY: librdkafka gave this pointer, and the message is destroyed together with this value.
        unsafe { self.0.as_ref() }
    }

    #[inline(always)]
    pub fn is_record(&self) -> bool {
        self.raw().error == 0
    }

    #[inline(always)]
    pub fn partition(&self) -> i32 {
        self.raw().partition
    }

    #[inline(always)]
    pub fn offset(&self) -> i64 {
        self.raw().offset
    }

    #[inline(always)]
    pub fn value(&self) -> Option<&[u8]> {
        // SAFETY: the message keeps its payload.
        unsafe { read_bytes(self.raw().payload, self.raw().length) }
    }

    #[inline(always)]
    pub fn key(&self) -> Option<&[u8]> {
        // SAFETY: the message keeps its key.
        unsafe { read_bytes(self.raw().key, self.raw().key_length) }
    }
}

/// SAFETY: the caller vouches that so many bytes are at the pointer, if it is not null, for as long as they are used.
#[inline(always)]
unsafe fn read_bytes<'a>(start: *const u8, length: usize) -> Option<&'a [u8]> {
    // SAFETY: see above.
    (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start, length) })
}

/// SAFETY: the caller vouches that a text that ends with a NUL is at the pointer, if it is not null.
unsafe fn read_text(start: *const c_char) -> String {
    // SAFETY: see above.
    if start.is_null() { String::new() } else { unsafe { CStr::from_ptr(start) }.to_string_lossy().into_owned() }
}

fn terminate(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| "a text holds a NUL".into())
}
