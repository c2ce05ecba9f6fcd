"use strict";
// The numbers of the page.
const core = JSON.parse(document.getElementById("core").textContent);
