# gdb commands for limpid-gdb.py that move along the text: next-layer, next-token, rewind, set-token.
# Between two tokens means: stopped at the beginning of decoder_next, where `limpid next-token` stops.
import gdb

from limpid_commands import Command, continue_to, in_range, number, takes_nothing, usage
from limpid_print import place, print_summary
from limpid_program import (HostMemory, accepted_tokens, argument_of, call, check_device, find, frames, in_pass, layer_at_hand,
                            model, read, spelling, tensor)


class NextLayer(Command):
    """limpid next-layer: continue to the first stage of the next layer; behind the last one to the final norm."""

    def __init__(self):
        super().__init__("next-layer", gdb.COMMAND_RUNNING)

    def perform(self, argument):
        takes_nothing(argument, self)
        next(frames())
        layer = layer_at_hand()
        if layer is None and in_pass():
            raise gdb.GdbError("the layer is optimised out here: limpid next stops where it is known")
        outside = layer is None or layer < 0
        if continue_to("observe", "layer >= 0" if outside else "layer != %d" % layer):
            m = model()
            print(place(m))
            print_summary(tensor(m, "stage"), "stage")


# ---- what has been taken ----


def decoder_between_tokens():
    """The decoder, if decoder_next has not begun to work."""
    frame = next(frames())
    d = argument_of("decoder_next", "d") if frame.name() == "decoder_next" else None
    if d is None or frame.pc() != recorder.entry:
        raise gdb.GdbError("only between two tokens: limpid next-token stops there")
    return d


def next_position(d):
    """Where the token that decoder_next will return goes."""
    return int(d["start"]) + int(d["given"]) + int(d["taken"])


def print_last_token(d):
    taken = int(d["taken"])
    if not taken:
        print("the prompt has been read; no token has been sampled yet")
        return
    last = int(d["last"])
    print("token %d of the text: %d%s, position %d" % (taken, last, spelling(last), next_position(d) - 1))


class NextToken(Command):
    """limpid next-token: continue until the next token has been taken, before the pass that feeds it."""

    def __init__(self):
        super().__init__("next-token", gdb.COMMAND_RUNNING)

    def perform(self, argument):
        takes_nothing(argument, self)
        if continue_to("decoder_next"):
            print_last_token(decoder_between_tokens())


# ---- going back ----


def caller_data(generation):
    """What the text's own command collects of it (Generation.context), as (name, struct); None: nothing that is kept."""
    functions = [frame.name() for frame in frames()]
    name = "Sink" if "generate_text" in functions else "Turn" if "conversation_answer" in functions else None
    return (name, generation["context"].cast(gdb.lookup_type(name).pointer()).dereference()) if name else (None, None)


def kept_numbers(generation):
    """The fields whose value belongs to the text so far: its hash, its lengths, those of what is held back or collected."""
    stop, characters, (name, data) = generation["stop_text"], generation["characters"], caller_data(generation)
    numbers = [generation["logits_hash"], generation["ids"]["count"], generation["repeated"], stop["length"], stop["released"],
               characters["pending"], characters["released"]]
    if name == "Turn":
        numbers.append(data["answer"]["size"])
        if int(data["wrap"]):
            numbers += [data["wrap"]["word"]["size"], data["wrap"]["width"], data["wrap"]["spaces"]]
    if name == "Sink":
        surprise = data["surprise"]
        numbers += [data["length"], data["recording"]["n_tokens"], surprise["characters"]["pending"],
                    surprise["characters"]["released"]] + [surprise[field] for field in ("first", "count", "bits", "tokens")]
    return numbers


def kept_buffers(generation):
    """(address, bytes) of what waits for the next token, from the beginning of each buffer on; buffers only grow."""
    stop, characters, (name, data) = generation["stop_text"], generation["characters"], caller_data(generation)
    buffers = [(stop["held"], int(stop["length"])), (characters["buffer"], int(characters["pending"]))]
    if name == "Turn" and int(data["wrap"]):
        buffers.append((data["wrap"]["word"]["bytes"], int(data["wrap"]["word"]["size"])))
    if name == "Sink":
        spans, waiting = data["surprise"]["spans"], data["surprise"]["characters"]
        buffers += [(spans, int(data["surprise"]["count"]) * spans.type.target().sizeof),
                    (waiting["buffer"], int(waiting["pending"]))]
    return buffers


class Record:
    """What a text cannot take back itself, as it is at one of its tokens."""

    def __init__(self, generation):
        self.numbers = [read(number.address, number.type.sizeof) for number in kept_numbers(generation)]
        self.buffers = [read(address, count) for address, count in kept_buffers(generation)]

    def put_back(self, generation):
        inferior = gdb.selected_inferior()
        for number, kept in zip(kept_numbers(generation), self.numbers):
            inferior.write_memory(int(number.address), kept)
        for (address, _), kept in zip(kept_buffers(generation), self.buffers):
            inferior.write_memory(int(address), kept)


class Recorder(gdb.Breakpoint):
    """Keeps a Record of each token of the text that is decoded, and where decoder_next begins; never stops."""

    def __init__(self):
        super().__init__("decoder_next", internal=True)
        self.silent = True
        self.entry, self.decoder, self.records = None, None, {}

    def stop(self):
        try:
            self.keep()
        except (gdb.error, gdb.GdbError, ValueError):
            self.records = {}  # then rewind refuses
        return False

    def keep(self):
        self.entry = gdb.newest_frame().pc()
        d, generation = argument_of("decoder_next", "d"), find("Generation")
        if d is None or generation is None:
            return
        # A text begins where no token has been taken.
        here = (gdb.selected_inferior().pid, int(d), int(generation.address))
        if here != self.decoder:
            self.decoder, self.records = here, {}
        taken = int(d["taken"])
        self.records = {t: record for t, record in self.records.items() if t < taken}
        self.records[taken] = Record(generation)


recorder = None


def record(_event=None):
    """Begins as soon as gdb knows the program."""
    global recorder
    if recorder is None and gdb.lookup_global_symbol("decoder_next"):
        recorder = Recorder()


class Text:
    """The text that is decoded, between two tokens."""

    def __init__(self):
        self.decoder = decoder_between_tokens()
        self.generation = find("Generation")
        if self.generation is None:
            raise gdb.GdbError("only a text of generate or chat can go back")
        self.taken = int(self.decoder["taken"])

    def token_before(self, taken):
        """The token that the text ends with after `taken` of its own; of the prompt after none."""
        tokens = accepted_tokens(self.generation["sampler"]["sampler"].dereference())
        return tokens[len(tokens) - 1 - (self.taken - taken)]

    def rewind(self, count):
        taken = self.taken - count
        if taken not in recorder.records:
            raise gdb.GdbError("token %d was taken before these commands were loaded: begin with `run`" % taken)
        if not call("_Bool decoder_rewind(void*,int,int)", self.decoder, count, self.token_before(taken)):
            raise gdb.GdbError("%d tokens back: layers with a window have lost what that position sees" % count)
        call("_Bool limpid_sampler_forget(void*,unsigned long)", self.generation["sampler"], count)
        check_device(model())
        recorder.records[taken].put_back(self.generation)
        self.taken = taken
        self.prepare()

    def prepare(self):
        """Makes the grammar's mask for the next token. Callers of decoder_next make it before: there is that of another token."""
        sampler, error = self.generation["sampler"], argument_of("decoder_next", "error")
        call("_Bool limpid_sampler_forget(void*,unsigned long)", sampler, 0)  # a mask that sampling has narrowed
        with HostMemory(1) as ended:
            if not call("_Bool sampler_prepare(void*,void*,void*)", sampler, ended, error):
                raise gdb.GdbError(error["message"].string())

    def need_allowed(self, token, position):
        constraint = self.generation["sampler"]["constraint"]
        if int(constraint["grammar"]) and not call("_Bool constraint_allows(void*,int)", constraint.address, token):
            raise gdb.GdbError("token %d%s: the grammar does not allow it at position %d, which is the next one"
                               % (token, spelling(token), position))


class Rewind(Command):
    """limpid rewind N: take back the last N tokens of the text; the program goes on from there."""

    def __init__(self):
        super().__init__("rewind", gdb.COMMAND_RUNNING)

    def perform(self, argument):
        count = number(argument, self)
        text = Text()
        if count > text.taken:
            raise gdb.GdbError("limpid rewind %d: wanted at most %d, the tokens of the text so far" % (count, text.taken))
        text.rewind(count)
        print_last_token(text.decoder)


class Quiet:
    """`with Quiet()`: the user's breakpoints do not stop a function that is called from here."""

    def __enter__(self):
        self.stops = [stop for stop in gdb.breakpoints() if stop.enabled]
        for stop in self.stops:
            stop.enabled = False

    def __exit__(self, *_):
        for stop in self.stops:
            stop.enabled = True


class SetToken(Command):
    """limpid set-token POS ID: go back to position POS of the text, take token ID there, continue behind it."""

    def __init__(self):
        super().__init__("set-token", gdb.COMMAND_RUNNING)

    def perform(self, argument):
        words = [number(word, self) for word in gdb.string_to_argv(argument)]
        if len(words) != 2:
            raise usage(self)
        position, token = words
        text, m = Text(), model()
        end = next_position(text.decoder)
        if not end - text.taken <= position <= end:
            raise gdb.GdbError("position %d: wanted %d .. %d, the first of the text to the next one"
                               % (position, end - text.taken, end))
        in_range("token", token, int(m["config"]["vocab_size"]))
        if position < end:
            text.rewind(end - position)
        text.need_allowed(token, position)
        self.take(text, token)
        if continue_to("decoder_next"):
            print_last_token(decoder_between_tokens())

    def take(self, text, token):
        """Lets decoder_next sample, as it must for the logits and the generator, and returns another token."""
        d, error = text.decoder, argument_of("decoder_next", "error")
        with Quiet():
            sampled = int(call("int decoder_next(void*,void*)", d, error))
            if sampled < 0:
                raise gdb.GdbError(error["message"].string())
            call("_Bool decoder_rewind(void*,int,int)", d, 0, token)
            text.prepare()
        check_device(model())
        gdb.newest_frame().select()
        gdb.execute("return (int)%d" % token, to_string=True)


def define():
    """After the prefix `limpid` exists."""
    gdb.events.new_objfile.connect(record)
    record()
    for command in (NextLayer, NextToken, Rewind, SetToken):
        command()
