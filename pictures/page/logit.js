"use strict";
// A logit as a sum: what the embedding, each head and each FFN add to it, the scale of the final
// norm taken as given.
const targetCount = () => core.attribution.targets[0].length;
const shareOf = (t, k, part) => numbers("dla")[(t * targetCount() + k) * core.attribution.parts.length + part];

addView({
    id: "logit",
    follows: ["position", "layer"],
    title: "Parts of a logit",
    says: "The final norm scales and the head is linear, so a logit is a sum over everything that was added to the stream. Orange " +
        "raises the logit, blue lowers it; the colour is by the square root. The curve is the running sum over the layers.",
    present: () => Boolean(core.attribution) && hasBlock("dla"),
    needs: () => ["dla"],
    target: 0, left: 64, top: 16, rowHeight: 15,

    build(body) {
        this.targets = el("div", { class: "controls" });
        this.canvas = el("canvas", { role: "img", "aria-label": "share of each part, a column for each layer" });
        this.scale = el("div", { class: "scales" });
        this.panel = el("div", { class: "panel" });
        this.scroll = el("div", { class: "scroll", tabindex: 0 }, this.canvas);
        body.append(this.targets, el("div", { class: "split logit" }, el("div", null, this.scroll, this.scale), this.panel));
        this.sortParts();
        onPointer(this.canvas, (x, y, event) => this.hover(x, y, event), hideTip, (x, y) => this.click(x, y));
    },

    // "3.ffn" is row "ffn" of column 3; a part without a layer stands in the table alone.
    sortParts() {
        this.rowNames = [];
        this.places = core.attribution.parts.map((part) => {
            const [layer, name] = part.split(".");
            if (name === undefined) return null;
            if (!this.rowNames.includes(name)) this.rowNames.push(name);
            return [Number(layer), this.rowNames.indexOf(name)];
        });
        this.partAt = new Map(this.places.map((place, i) => [String(place), i]));
    },

    share(part) {
        const t = chosen.position;
        return this.target === "difference" ? shareOf(t, 0, part) - shareOf(t, 1, part) : shareOf(t, this.target, part);
    },

    draw() {
        const ids = core.attribution.targets[chosen.position].slice(0, targetCount());
        const options = ids.map((id, k) => [k, tokenName(id)]);
        if (ids.length > 1) options.push(["difference", "first − second"]);
        const shares = core.attribution.parts.map((_, part) => this.share(part));
        this.total = sum(shares);
        refill(this.targets, choice("logit of", options, this.target, (key) => { this.target = key; this.draw(); }),
            el("span", { class: "soft" }, "sum ", el("b", null, short(this.total, 6))));
        this.drawPicture(shares);
        this.showLargest(shares);
    },

    drawPicture(shares) {
        const room = roomIn(this.scroll), curve = 74;
        this.step = Math.max(12, Math.min(44, (room - this.left - 4) / core.layers));
        const bottom = this.top + this.rowNames.length * this.rowHeight;
        const context = fitCanvas(this.canvas, this.left + core.layers * this.step + 2, bottom + curve);
        const colors = ramp("signed"), most = (this.most = Math.max(...shares.filter((_, i) => this.places[i]).map(Math.abs), 1e-30));
        shares.forEach((share, i) => {
            if (!this.places[i]) return;
            const [l, r] = this.places[i], root = Math.sign(share) * Math.sqrt(Math.abs(share) / most);
            context.fillStyle = colors.css[shade(0.5 + root / 2)];
            context.fillRect(this.left + l * this.step, this.top + r * this.rowHeight, this.step - 1, this.rowHeight - 1);
        });
        this.drawAxes(context);
        this.drawCurve(context, shares, bottom + 8, curve - 16);
        this.scale.replaceChildren(legend("signed", short(-most, 3), "+" + short(most, 3)));
    },

    drawAxes(context) {
        context.font = "11px system-ui, sans-serif";
        context.textBaseline = "middle";
        context.textAlign = "center";
        const every = Math.ceil(18 / this.step);
        for (let l = 0; l < core.layers; l++) {
            context.fillStyle = cssColor(l === chosen.layer ? "accent" : "soft");
            if (l % every === 0 || l === chosen.layer) context.fillText(l, this.left + (l + 0.5) * this.step, this.top / 2);
        }
        context.textAlign = "right";
        context.fillStyle = cssColor("soft");
        this.rowNames.forEach((name, r) =>
            context.fillText(/^\d+$/.test(name) ? `head ${name}` : name === "ffn" ? "FFN" : name, this.left - 6, this.top + (r + 0.5) * this.rowHeight));
        context.strokeStyle = cssColor("accent");
        context.lineWidth = 1.5;
        context.strokeRect(this.left + chosen.layer * this.step - 1, this.top - 1, this.step + 1, this.rowNames.length * this.rowHeight + 1);
    },

    // The sum up to and with each layer, from the parts that no layer has.
    drawCurve(context, shares, top, height) {
        const sums = new Array(core.layers).fill(0);
        let start = 0;
        shares.forEach((share, i) => { if (this.places[i]) sums[this.places[i][0]] += share; else start += share; });
        let running = start;
        const values = [start, ...sums.map((x) => (running += x))];
        const low = Math.min(0, ...values), high = Math.max(0, ...values), y = (v) => top + ((high - v) / (high - low || 1)) * height;
        context.strokeStyle = cssColor("line");
        context.lineWidth = 1;
        context.beginPath();
        context.moveTo(this.left, y(0));
        context.lineTo(this.left + core.layers * this.step, y(0));
        context.stroke();
        context.strokeStyle = cssColor("ink");
        context.lineWidth = 1.6;
        context.beginPath();
        values.forEach((v, i) => context.lineTo(this.left + i * this.step, y(v)));
        context.stroke();
        context.fillStyle = cssColor("soft");
        context.fillText(short(high, 3), this.left - 6, y(high));
        if (y(0) - y(high) > 14) context.fillText("0", this.left - 6, y(0));
    },

    at(x, y) {
        const l = Math.floor((x - this.left) / this.step), r = Math.floor((y - this.top) / this.rowHeight);
        const part = this.partAt.get(String([l, r]));
        return part === undefined ? null : { l, r, part };
    },

    hover(x, y, event) {
        const cell = this.at(x, y);
        if (!cell) return hideTip();
        const name = this.rowNames[cell.r];
        showTip(event, `layer ${cell.l}, ${/^\d+$/.test(name) ? "head " + name : name}`, `${exact(this.share(cell.part))} of ${short(this.total, 6)}`);
    },

    click(x, y) {
        const cell = this.at(x, y);
        if (!cell) return;
        const head = Number(this.rowNames[cell.r]);
        choose(Number.isNaN(head) ? { layer: cell.l } : { layer: cell.l, head });
    },

    showLargest(shares) {
        const order = shares.map((_, i) => i).sort((a, b) => Math.abs(shares[b]) - Math.abs(shares[a])).slice(0, 10);
        const name = (i) => {
            const [layer, rest] = core.attribution.parts[i].split(".");
            return rest === undefined ? layer : /^\d+$/.test(rest) ? `layer ${layer}, head ${rest}` : `layer ${layer}, ${rest === "ffn" ? "FFN" : rest}`;
        };
        this.panel.replaceChildren(table("ten largest parts", ["ten largest parts", ""], order.map((i) => [name(i), short(shares[i], 5)]), ["", "n"]));
    },
});
