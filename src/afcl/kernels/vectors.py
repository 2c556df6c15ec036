# SPDX-License-Identifier: Apache-2.0
"""Vector instructions, written in the compiler's (LLVM's) own words.

Loops in Python's words become loops over memory, which the compiler has to prove
independent of each other; what :mod:`.lanes` and :mod:`.along` write keeps numbers in
registers. The compiler makes of it what the machine has: a register may be two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, codegen, config, types
from numba.core.errors import TypingError

#: What helps to write code, of which no types are known.
_tools: Any = cgutils
#: What the compiler knows of the machine.
_codegen: Any = codegen
_features = getattr(config, "CPU_FEATURES", None) or _codegen.get_host_cpu_features()
#: Whether it has registers that wide, and 32 of them.
HAS_WIDEST = "+avx512f" in _features
#: What the compiler takes a named tuple for.
_TUPLE: Any = types.BaseTuple
#: Whether anything is compiled at all.
IS_COMPILED = not getattr(config, "DISABLE_JIT", False)
#: Bytes of the widest register there is.
REGISTER = 64


class Writer:
    """Writes instructions on registers of rows.

    Parameters
    ----------
    context, builder
        The compiler's.
    number
        What a row's numbers are.
    """

    def __init__(self, context: Any, builder: Any, number: Any) -> None:
        self.context, self.builder = context, builder
        bits = 32 if isinstance(number, ir.FloatType) else 64
        self.lanes = REGISTER * 8 // bits
        self.align = bits // 8
        self.numbers = ir.VectorType(number, self.lanes)
        self.labels = ir.VectorType(ir.IntType(bits), self.lanes)
        self.index = context.get_value_type(types.intp)
        kind = ir.FunctionType(self.numbers, [self.numbers] * 3)
        name = f"llvm.fmuladd.v{self.lanes}f{bits}"
        self._added = _tools.get_or_insert_function(builder.module, kind, name)

    def loop(self, times: Any) -> Any:
        """Return what begins a loop, and knows its `index`."""
        return _tools.for_range(self.builder, times)

    def room(self, kind: Any) -> Any:
        """Return room for a value, which becomes a register if it can."""
        return _tools.alloca_once(self.builder, kind)

    def sizes(self, array: Any) -> Any:
        """Return how long an array is in every direction."""
        return _tools.unpack_tuple(self.builder, array.shape)

    def at(self, number: int) -> Any:
        """Return a whole number, as places are counted by."""
        return ir.Constant(self.index, number)

    def everywhere(self, kind: Any, number: float) -> Any:
        """Return a register that holds a constant in every lane."""
        return ir.Constant(kind, [number] * self.lanes)

    def times(self, a: Any, b: Any) -> Any:
        """Return the product of two places."""
        return self.builder.mul(a, b)

    def numbered(self, place: Any) -> Any:
        """Return a register that holds a place's number in every lane."""
        if self.labels.element.width < self.index.width:
            place = self.builder.trunc(place, self.labels.element)
        return self.spread(place)

    def same(self, a: Any, b: Any) -> Any:
        """Return where two registers of numbers of places are equal."""
        return self.builder.icmp_signed("==", a, b)

    def spread(self, value: Any) -> Any:
        """Return a register that holds a value in every lane."""
        kind = ir.VectorType(value.type, self.lanes)
        none = ir.Constant(kind, ir.Undefined)
        first = self.builder.insert_element(none, value, ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(first, none, zeros)

    def single(self, array: Any, place: Any) -> Any:
        """Return one number of an array in all lanes."""
        return self.spread(self.builder.load(self.builder.gep(array.data, [place])))

    def counting(self) -> Any:
        """Return a register that holds every lane's number."""
        return ir.Constant(self.labels, list(range(self.lanes)))

    def first_of_least(self, values: Any, labels: Any) -> Any:
        """Return the label of the lane with the least value, of several the first."""
        bits = self.labels.element.width
        least = self._reduced(f"fmin.v{self.lanes}f{bits}", values)
        is_least = self.builder.fcmp_ordered("==", values, self.spread(least))
        far = self.everywhere(self.labels, 2 ** (bits - 2))
        among = self.builder.select(is_least, labels, far)
        return self._reduced(f"smin.v{self.lanes}i{bits}", among)

    def _reduced(self, how: str, values: Any) -> Any:
        """Return one number of all lanes."""
        kind = ir.FunctionType(values.type.element, [values.type])
        name = f"llvm.vector.reduce.{how}"
        function = _tools.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, [values])

    def load(self, array: Any, place: Any) -> Any:
        """Return a register's worth of an array, from a place on."""
        where = self.builder.gep(array.data, [place])
        pointer = self.builder.bitcast(where, self.numbers.as_pointer())
        value = self.builder.load(pointer)
        value.align = self.align
        return value

    def turned(self, square: list[Any]) -> list[Any]:
        """Return as many registers as there are lanes, lines and columns exchanged."""
        lanes = range(self.lanes)
        apart = 1
        while apart < self.lanes:
            # Exchange what is as far apart in the one direction as in the other.
            low = [
                lane if not lane & apart else lane - apart + self.lanes
                for lane in lanes
            ]
            high = [
                lane + apart if not lane & apart else lane + self.lanes
                for lane in lanes
            ]
            for first in lanes:
                if not first & apart:
                    pair = square[first], square[first + apart]
                    square[first] = self._picked(*pair, low)
                    square[first + apart] = self._picked(*pair, high)
            apart *= 2
        return square

    def _picked(self, a: Any, b: Any, places: list[int]) -> Any:
        """Return lanes of two registers, those of the second counted on."""
        kind = ir.VectorType(ir.IntType(32), self.lanes)
        return self.builder.shuffle_vector(a, b, ir.Constant(kind, places))

    def values(self, array: Any, place: Any, whole: bool) -> Any:
        """Return a register's worth of an array, or one number."""
        if whole:
            return self.load(array, place)
        return self.builder.load(self.builder.gep(array.data, [place]))

    def added(self, value: Any, rest: Any) -> Any:
        """Return the sum of all lanes and a number, in any order."""
        number = rest.type
        kind = ir.FunctionType(number, [number, self.numbers])
        bits = self.align * 8
        name = f"llvm.vector.reduce.fadd.v{self.lanes}f{bits}"
        function = _tools.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, [rest, value], fastmath=("reassoc",))

    def store(self, value: Any, array: Any, place: Any) -> None:
        """Write a register to an array, from a place on."""
        where = self.builder.gep(array.data, [place])
        element = array.data.type.pointee
        if isinstance(element, ir.IntType) and element.width != self.align * 8:
            value = self.builder.sext(value, ir.VectorType(element, self.lanes))
        pointer = self.builder.bitcast(where, value.type.as_pointer())
        written = self.builder.store(value, pointer)
        written.align = self.align

    def product(self, a: Any, b: Any, c: Any) -> Any:
        """Return a b + c, rounded once where the machine can."""
        return self.builder.call(self._added, [a, b, c])

    def squared(self, a: Any, b: Any, c: Any) -> Any:
        """Return (a - b)^2 + c, rounded every time, as NumPy does it."""
        difference = self.builder.fsub(a, b)
        return self.builder.fadd(c, self.builder.fmul(difference, difference))

    def less(self, a: Any, b: Any) -> Any:
        """Return where a is less than b."""
        return self.builder.fcmp_ordered("<", a, b)

    def least(self, a: Any, b: Any) -> Any:
        """Return the lesser of two."""
        return self.builder.select(self.less(a, b), a, b)


class Registers:
    """What stays in some registers while centres go by."""

    def __init__(self, writer: Writer, kind: Any, begin: float, number: int) -> None:
        self._writer = writer
        self._begin = writer.everywhere(kind, begin)
        self._slots = [writer.room(kind) for _ in range(number)]

    def reset(self) -> None:
        """Begin anew."""
        for slot in self._slots:
            self._writer.builder.store(self._begin, slot)

    def get(self, register: int) -> Any:
        """Return what a register holds."""
        return self._writer.builder.load(self._slots[register])

    def set(self, register: int, value: Any) -> None:
        """Let a register hold another value."""
        self._writer.builder.store(value, self._slots[register])


class Least:
    """Writes how the least of some numbers, and the second least, are kept.

    What nobody reads, the second least for example, the compiler leaves out.
    """

    def __init__(self, writer: Writer, number: int) -> None:
        self._writer = writer
        self.label = Registers(writer, writer.labels, 0, number)
        self.best = Registers(writer, writer.numbers, math.inf, number)
        self.second = Registers(writer, writer.numbers, math.inf, number)

    def reset(self) -> None:
        """Begin: nothing is near yet."""
        for each in (self.label, self.best, self.second):
            each.reset()

    def see(self, register: int, value: Any, label: Any) -> None:
        """Look at one more centre's numbers."""
        select, best = self._writer.builder.select, self.best.get(register)
        nearer = self._writer.less(value, best)
        loser = select(nearer, best, value)
        lesser = self._writer.least(loser, self.second.get(register))
        self.second.set(register, lesser)
        self.best.set(register, select(nearer, value, best))
        kept = select(nearer, label, self.label.get(register))
        self.label.set(register, kept)


def _arrays(context: Any, builder: Any, kinds: Any, values: Any) -> list[Any]:
    """Return arguments as the compiler's arrays; of a tuple of them a list."""
    return [
        _arrays(context, builder, kind.types, _tools.unpack_tuple(builder, value))
        if isinstance(kind, _TUPLE)
        else context.make_array(kind)(context, builder, value)
        for kind, value in zip(kinds, values, strict=True)
    ]


def written(by: Callable[..., None], kinds: dict[str, Any], **options: Any) -> Any:
    """Return what the compiler asks of an intrinsic: its signature, and who writes.

    Parameters
    ----------
    by
        Writes the loops: (context, builder, arrays by name, options).
    kinds
        The arguments' types, by name.
    **options
        What is written differently.
    """

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        asked = _arrays(context, builder, signature.args, values)
        arrays = dict(zip(kinds, asked, strict=True))
        by(context, builder, **arrays, **options)
        return context.get_dummy_value()

    for name, kind in kinds.items():
        for array in kind if isinstance(kind, _TUPLE) else (kind,):
            if array.layout != "C":
                raise TypingError(f"{name} must lie in memory line by line")
    return types.void(*kinds.values()), write
