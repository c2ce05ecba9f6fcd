"use strict";
document.getElementById("page").textContent = core.pieces[core.ids[0]];
