"""GGUF files with some tensors replaced: for scripts/conversions --redraw. Reads what llama.cpp's converters write."""
import array
import struct

F16 = 1  # ggml's number of the type
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # of a value of metadata, by its type
TEXT, ARRAY = 8, 9


class Gguf:
    """head: the bytes in front of the list of tensors; tensors: name -> (dimensions, type, bytes), fastest dimension first."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = memoryview(file.read())
        self.at, self.alignment = 8, 32
        n_tensors, n_keys = self._take("<QQ")
        for _ in range(n_keys):
            key = self._text()
            kind, = self._take("<I")
            if key == b"general.alignment":
                self.alignment, = struct.unpack_from("<I", self.bytes, self.at)
            self._skip(kind)
        self.head = self.bytes[:self.at]
        infos = []
        for _ in range(n_tensors):
            name = self._text().decode()
            dims = self._take(f"<{self._take('<I')[0]}Q")
            infos.append((name, dims, *self._take("<IQ")))
        begin = -(-self.at // self.alignment) * self.alignment
        ends = sorted(offset for *_, offset in infos) + [len(self.bytes) - begin]
        end_of = dict(zip(ends, ends[1:]))
        self.tensors = {name: (dims, kind, self.bytes[begin + offset:begin + end_of[offset]]) for name, dims, kind, offset in infos}

    def _take(self, form):
        values = struct.unpack_from(form, self.bytes, self.at)
        self.at += struct.calcsize(form)
        return values

    def _text(self):
        length, = self._take("<Q")
        self.at += length
        return bytes(self.bytes[self.at - length:self.at])

    def _skip(self, kind):
        if kind == TEXT:
            self._text()
        elif kind == ARRAY:
            element, count = self._take("<IQ")
            if element in SIZES:
                self.at += count * SIZES[element]
            else:
                for _ in range(count):
                    self._skip(element)
        else:
            self.at += SIZES[kind]

    def write(self, path):
        infos, offset = b"", 0
        for name, (dims, kind, data) in self.tensors.items():
            text = name.encode()
            infos += struct.pack(f"<Q{len(text)}sI{len(dims)}QIQ", len(text), text, len(dims), *dims, kind, offset)
            offset += len(data) + -len(data) % self.alignment
        with open(path, "wb") as file:
            file.write(self.head)
            file.write(infos + bytes(-(len(self.head) + len(infos)) % self.alignment))
            for _, _, data in self.tensors.values():
                file.write(data)
                file.write(bytes(-len(data) % self.alignment))


def with_columns(tensor, order):
    """An F16 tensor whose column i is the column order[i] of another."""
    dims, kind, data = tensor
    assert kind == F16
    width, values, out = dims[0], array.array("H", bytes(data)), array.array("H")
    for row in range(0, len(values) // width * width, width):
        out.extend(map(values[row:row + width].__getitem__, order))
    return dims, F16, out.tobytes()
