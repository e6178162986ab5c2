//! Messages as items of messages: `pvm_pkmesg`, `pvm_pkmesgbody`, `pvm_upkmesg`.

use super::{Buffer, Info, Kind};
use crate::code::Code;

impl Buffer {
    /// Packs a whole message: what it says about itself, then its body.
    ///
    /// # Errors
    /// As [`Buffer::pack`]; [`Code::NOT_IMPLEMENTED`]: one of both is packed in place.
    pub fn pack_message(&mut self, message: &Self) -> Result<(), Code> {
        if self.is_in_place || message.is_in_place {
            return Err(Code::NOT_IMPLEMENTED);
        }
        let info = message.said();
        // A body has at most 2^31 - 1 bytes.
        let length = i32::try_from(message.len()).map_err(|_| Code::NO_MEMORY)?;
        let words = [
            length,
            info.context,
            info.tag,
            info.wait_id,
            info.encoding,
            info.checksum,
            info.source,
            info.destination,
            // As long as in PVM, which `pvm_bufinfo` tells.
            0,
        ];
        words.iter().try_for_each(|word| self.pack_int(*word))?;
        self.pack(Kind::Byte, message.body(), message.body().len(), 1)
    }

    /// Appends the body of a message, without a mark where it begins or ends.
    ///
    /// # Errors
    /// [`Code::MISMATCH`]: they are encoded in different ways.
    pub fn pack_body(&mut self, message: &Self) -> Result<(), Code> {
        let is_same = self.said().encoding == message.said().encoding
            && self.is_in_place == message.is_in_place;
        if !is_same {
            return Err(Code::MISMATCH);
        }
        self.reserve(message.body().len())?;
        self.bytes.extend_from_slice(message.body());
        self.places.extend_from_slice(&message.places);
        Ok(())
    }

    /// Unpacks a message that was packed whole.
    ///
    /// # Errors
    /// [`Code::NO_DATA`]: there is none; nothing was taken then.
    pub fn unpack_message(&mut self) -> Result<Self, Code> {
        let begin = self.cursor;
        let taken = self.take_message();
        if taken.is_err() {
            self.cursor = begin;
        }
        taken
    }

    fn take_message(&mut self) -> Result<Self, Code> {
        let length = self.unpack_int()?;
        let length = usize::try_from(length).map_err(|_| Code::NO_DATA)?;
        let info = Info {
            context: self.unpack_int()?,
            tag: self.unpack_int()?,
            wait_id: self.unpack_int()?,
            encoding: self.unpack_int()?,
            checksum: self.unpack_int()?,
            source: self.unpack_int()?,
            destination: self.unpack_int()?,
        };
        self.unpack_int()?;
        if length > self.body().len() - self.cursor {
            return Err(Code::NO_DATA);
        }
        let mut body = vec![0; length];
        self.unpack(Kind::Byte, &mut body, length, 1)?;
        Ok(Self::with_body(info, &body))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Encoding;
    use super::*;

    #[test]
    fn message_in_a_message_comes_out_as_it_was() {
        for (inner, outer) in [
            (Encoding::Raw, Encoding::Xdr),
            (Encoding::Xdr, Encoding::Raw),
        ] {
            let mut message = Buffer::new(inner);
            message.pack_text(b"inside").expect("packed");
            message.info.tag = 9;
            message.info.source = 0x40001;
            let mut buffer = Buffer::new(outer);
            buffer.pack_int(1).expect("packed");
            buffer.pack_message(&message).expect("packed");
            buffer.pack_int(2).expect("packed");
            assert_eq!(buffer.unpack_int(), Ok(1));
            let mut unpacked = buffer.unpack_message().expect("unpacked");
            assert_eq!(unpacked, message);
            assert_eq!(unpacked.unpack_text(), Ok(&b"inside"[..]));
            assert_eq!(buffer.unpack_int(), Ok(2));
            assert_eq!(buffer.unpack_message(), Err(Code::NO_DATA));
        }
    }

    #[test]
    fn lengths_are_not_believed() {
        let mut buffer = Buffer::new(Encoding::Raw);
        for word in [i32::MAX, 0, 0, 0, 0, 0, 0, 0, 0] {
            buffer.pack_int(word).expect("packed");
        }
        assert_eq!(buffer.unpack_message(), Err(Code::NO_DATA));
        assert_eq!(buffer.unpack_int(), Ok(i32::MAX), "nothing was taken");
    }

    #[test]
    fn bodies_are_spliced_where_encodings_are_the_same() {
        let mut first = Buffer::new(Encoding::Xdr);
        first.pack_int(1).expect("packed");
        let mut second = Buffer::new(Encoding::Xdr);
        second.pack_int(2).expect("packed");
        first.pack_body(&second).expect("the same encoding");
        assert_eq!(first.len(), 8);
        let raw = Buffer::new(Encoding::Raw);
        assert_eq!(first.pack_body(&raw), Err(Code::MISMATCH));
    }
}
