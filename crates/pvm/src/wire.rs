//! How requests and what answers them go over the machine's socket: a length of 4 bytes, little
//! endian, then what postcard makes of it.
//!
//! Only programs of one release meet there: it has no version of its own.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::code::Code;

/// The longest, a message for a mailbox.
const BYTES_MAX: usize = 256 << 20;
const LENGTH_BYTES: usize = 4;

/// Appends one.
///
/// # Errors
/// [`Code::OUT_OF_RESOURCES`]: it is too long.
pub(crate) fn append(bytes: &mut Vec<u8>, what: &impl Serialize) -> Result<(), Code> {
    let begin = bytes.len();
    bytes.extend_from_slice(&[0; LENGTH_BYTES]);
    let mut written =
        postcard::to_extend(what, std::mem::take(bytes)).map_err(|_| Code::OUT_OF_RESOURCES)?;
    let length = written.len() - begin - LENGTH_BYTES;
    let place = written.get_mut(begin..begin + LENGTH_BYTES);
    match (place, u32::try_from(length)) {
        (Some(place), Ok(number)) if length <= BYTES_MAX => {
            place.copy_from_slice(&number.to_le_bytes());
            *bytes = written;
            Ok(())
        }
        _ => {
            written.truncate(begin);
            *bytes = written;
            Err(Code::OUT_OF_RESOURCES)
        }
    }
}

/// Takes the first whole one. `None`: it has not come yet.
///
/// # Errors
/// [`Code::BAD_MESSAGE`]: these bytes make no sense, so what follows makes none, either.
pub(crate) fn take<T: DeserializeOwned>(bytes: &mut Vec<u8>) -> Result<Option<T>, Code> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*length) as usize;
    if length > BYTES_MAX {
        return Err(Code::BAD_MESSAGE);
    }
    let Some(one) = rest.get(..length) else {
        return Ok(None);
    };
    let taken = postcard::from_bytes(one).map_err(|_| Code::BAD_MESSAGE)?;
    bytes.drain(..LENGTH_BYTES + length);
    Ok(Some(taken))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Request;

    #[test]
    fn what_is_written_is_read_also_in_parts() {
        let requests = [
            Request::NewContext,
            Request::Put {
                class: "name".to_owned(),
                flags: 3,
                message: vec![7; 300],
            },
        ];
        let mut written = Vec::new();
        for request in &requests {
            append(&mut written, request).expect("short");
        }
        let (mut came, mut read) = (Vec::new(), Vec::<Request>::new());
        for byte in written {
            came.push(byte);
            read.extend(take(&mut came).expect("sound"));
        }
        assert_eq!(read, requests);
        assert!(came.is_empty());
    }

    #[test]
    fn lengths_are_not_believed() {
        let mut bytes = u32::MAX.to_le_bytes().to_vec();
        assert_eq!(take::<Request>(&mut bytes), Err(Code::BAD_MESSAGE));
        let mut nonsense = vec![1, 0, 0, 0, 0xff];
        assert_eq!(take::<Request>(&mut nonsense), Err(Code::BAD_MESSAGE));
    }
}
