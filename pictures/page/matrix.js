"use strict";
// A matrix as a picture: a row of pixels for each row, wide ones in bands one below the other, blue
// below zero and orange above; and around one cell the numbers themselves. Used for stages and for
// weights.
const GRID_ROWS = 7;
const BAND_GAP = 10;
const MOST_SORTED = 16384; // so many of the numbers decide the colour scale

// The 99th percentile of |x|: some channels are hundreds of times larger than all others.
function colorLimit(values) {
    const stride = Math.max(1, Math.floor(values.length / MOST_SORTED)), sizes = [];
    for (let i = 0; i < values.length; i += stride) if (Number.isFinite(values[i])) sizes.push(Math.abs(values[i]));
    const sorted = Float64Array.from(sizes).sort();
    return sorted[Math.floor(0.99 * (sorted.length - 1))] || sorted[sorted.length - 1] || 1;
}

// matrix: {values (rows x columns), rows, columns, exact, digits (where it is not), rowName(r, most
// characters), columnName(c)}
class MatrixPicture {
    constructor(label, pick) {
        this.canvas = el("canvas", { role: "img", "aria-label": label });
        this.scale = el("div", { class: "scales" });
        this.scroll = el("div", { class: "scroll tall", tabindex: 0 }, this.canvas);
        this.grid = el("div", { class: "scroll" });
        this.pick = pick;
        this.rowInput = this.field("row");
        this.columnInput = this.field("column");
        this.fields = el("div", { class: "controls fields" }, el("label", null, "row ", this.rowInput), el("label", null, "column ", this.columnInput));
        onPointer(this.canvas, (x, y, event) => this.hover(x, y, event), hideTip, (x, y) => {
            const cell = this.cellAt(x, y);
            if (cell) this.pick(...cell);
        });
    }

    field(name) {
        const change = () => this.pick(clamp(Number(this.rowInput.value) || 0, this.matrix.rows), clamp(Number(this.columnInput.value) || 0, this.matrix.columns));
        return el("input", { type: "number", min: 0, value: 0, "data-name": name, "aria-label": name, onchange: change });
    }

    // Bands of equal width, with cells of at least 1.5 pixels.
    layOut(room) {
        const { rows, columns } = this.matrix;
        const bands = Math.max(1, Math.ceil((columns * 1.5) / room));
        this.perBand = Math.ceil(columns / bands);
        this.bands = Math.ceil(columns / this.perBand);
        this.cellWidth = Math.min(28, room / this.perBand);
        this.cellHeight = Math.max(1, Math.min(18, rows > 64 ? 260 / rows : Math.max(5, 180 / rows / Math.sqrt(this.bands))));
        if (rows > 260) this.cellHeight = Math.max(1, Math.min(this.cellWidth, 4));
        this.bandHeight = rows * this.cellHeight + BAND_GAP;
    }

    show(matrix, row, column) {
        this.matrix = matrix;
        this.layOut(roomIn(this.scroll) - 2);
        const { rows, columns, values } = matrix;
        const limit = (this.limit = colorLimit(values)), colors = ramp("signed").words;
        const nan = packedHex(NAN_COLOR), infinite = packedHex(INFINITY_COLOR[themeName()]);
        const colorAt = (r, c) => {
            const x = values[r * columns + c];
            if (Number.isFinite(x)) return colors[shade(0.5 + x / limit / 2)];
            return Number.isNaN(x) ? nan : infinite;
        };
        const context = fitCanvas(this.canvas, this.perBand * this.cellWidth + 2, this.bands * this.bandHeight);
        for (let b = 0; b < this.bands; b++) {
            const from = b * this.perBand, width = Math.min(this.perBand, columns - from);
            const picture = pixels(rows, width, (r, c) => colorAt(r, from + c)); // of all columns it would be too wide
            context.drawImage(picture, 0, b * this.bandHeight, width * this.cellWidth, rows * this.cellHeight);
        }
        this.markSpecial(context);
        this.markCell(context, row, column);
        this.scale.replaceChildren(legend("signed", short(-limit, 3), `+${short(limit, 3)} (99th percentile) and beyond`),
            ...(this.special ? [el("span", { class: "key nan" }, "NaN"), el("span", { class: "key inf" }, "infinity")] : []));
        this.showNumbers(row, column);
    }

    originOf(row, column) {
        const band = Math.floor(column / this.perBand);
        return [(column - band * this.perBand) * this.cellWidth, band * this.bandHeight + row * this.cellHeight];
    }

    // A NaN may be a single pixel among thousands: rings show where the first of them are.
    markSpecial(context) {
        const { values, columns } = this.matrix;
        let marked = 0;
        for (let i = 0; i < values.length && marked < 60; i++) {
            if (Number.isFinite(values[i])) continue;
            const [x, y] = this.originOf(Math.floor(i / columns), i % columns);
            context.strokeStyle = Number.isNaN(values[i]) ? NAN_COLOR : INFINITY_COLOR[themeName()];
            context.lineWidth = 1.5;
            context.beginPath();
            context.arc(x + this.cellWidth / 2, y + this.cellHeight / 2, 5, 0, 7);
            context.stroke();
            marked++;
        }
        this.special = marked;
    }

    // The row in all bands, and the cell.
    markCell(context, row, column) {
        context.strokeStyle = cssColor("accent");
        context.lineWidth = 1;
        for (let b = 0; b < this.bands; b++)
            context.strokeRect(0.5, b * this.bandHeight + row * this.cellHeight - 0.5, this.perBand * this.cellWidth, this.cellHeight + 1);
        const [x, y] = this.originOf(row, column);
        context.lineWidth = 2;
        context.strokeRect(x - 2, y - 2, this.cellWidth + 4, this.cellHeight + 4);
    }

    cellAt(x, y) {
        const band = Math.floor(y / this.bandHeight), c = Math.floor(x / this.cellWidth), r = Math.floor((y - band * this.bandHeight) / this.cellHeight);
        const column = band * this.perBand + c;
        if (x < 0 || c >= this.perBand || column >= this.matrix.columns || r < 0 || r >= this.matrix.rows || band >= this.bands) return null;
        return [r, column];
    }

    text(r, c) {
        const x = this.matrix.values[r * this.matrix.columns + c];
        return this.matrix.exact ? exact(x) : about(x, this.matrix.digits);
    }

    hover(x, y, event) {
        const cell = this.matrix && this.cellAt(x, y);
        if (!cell) return hideTip();
        showTip(event, `[${cell[0]}, ${cell[1]}]  ${this.matrix.rowName(cell[0], 12)}${this.matrix.columnName(cell[1])}`, this.text(...cell));
    }

    showNumbers(row, column) {
        const { rows, columns, rowName } = this.matrix;
        const fit = Math.max(2, Math.min(9, Math.floor((roomIn(this.grid) - 96) / 94))); // of 9 digits and a sign
        const r0 = Math.max(0, Math.min(row - 3, rows - GRID_ROWS)), c0 = Math.max(0, Math.min(column - (fit >> 1), columns - fit));
        const across = Array.from({ length: Math.min(fit, columns) }, (_, i) => c0 + i);
        const cells = Array.from({ length: Math.min(GRID_ROWS, rows) }, (_, i) => r0 + i).map((r) => [
            `${r} ${rowName(r, 13 - String(r).length)}`.trim(), ...across.map((c) => el("span", r === row && c === column ? { class: "here" } : null, this.text(r, c)))]);
        this.rowInput.value = row;
        this.columnInput.value = column;
        this.grid.replaceChildren(table("numbers around the chosen cell", ["", ...across.map(String)], cells, ["", ...across.map(() => "n")]));
    }
}
