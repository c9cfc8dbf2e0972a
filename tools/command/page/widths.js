// SPDX-License-Identifier: MIT
// The two ways to be wide, which diff has beside the kinds.

button(byId('widths'), 'what has changed', () => { whole = false; choose(kind) }).className = 'on';
button(byId('widths'), 'all that there is', () => { whole = true; choose(kind) });
