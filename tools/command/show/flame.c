/* SPDX-License-Identifier: MIT */
#include "flame.h"
#include "command.h"
#include "page.h"

void flame_write_place(FILE *page)
{
  fputs(
    "<p id=\"kinds\"></p>\n<div id=\"flame\"></div>\n"
    "<noscript><p>The stacks need a script to be drawn: the same command without <code>-o</code> prints them.</p></noscript>\n",
    page);
}

void flame_write_names(const callers_t *callers, size_t first, FILE *page)
{
  for (size_t i = 0; i < callers->name_count; i++) {
    fputs(first + i ? "," : "", page);
    command_quote(callers->names[i], page);
  }
}

void flame_write_stack(const call_stack_t *stack, size_t first, FILE *page)
{
  for (uint32_t k = stack ? stack->count : 0; k--;)
    fprintf(page, "%zu%s", first + stack->names[k], k ? "," : "");
}

static const char script[] =
  "let kind=0;\n"
  "function bytes(n){const u=['B','KiB','MiB','GiB','TiB','PiB'];let i=0;while(n>=999.5&&i<5){n/=1024;i++}\n"
  " return n.toFixed(i&&n<99.95?n<9.995?2:1:0)+' '+u[i]}\n"
  "function size(n){return kinds[kind][1]?bytes(n):n.toLocaleString('en')}\n"
  "const flame=document.getElementById('flame'),choice=document.getElementById('kinds');\n"
  "function button(to,text,act){const b=document.createElement('button');b.textContent=text;\n"
  " b.onclick=()=>{for(const other of to.children)other.className=other==b?'on':'';act()};to.append(b);return b}\n"
  "function tree(){const root={name:'all',sum:0,below:new Map()};\n"
  " for(const [sums,frames] of sites){const n=weight(sums);\n"
  "  let at=root;const count=()=>{at.sum+=n;note(at,sums)};count();\n"
  "  for(const f of frames){const name=names[f];let b=at.below.get(name);\n"
  "   if(!b){b={name,sum:0,below:new Map(),above:at};at.below.set(name,b)}at=b;count()}}\n"
  " return root}\n"
  "function draw(top,whole){let deepest=0;flame.replaceChildren();\n"
  " const put=(node,x,width,depth)=>{if(width<.05)return;deepest=Math.max(deepest,depth);\n"
  "  const box=document.createElement('div');\n"
  "  box.style.cssText=`left:${x}%;width:${width}%;top:${depth*17}px;background:${color(node)}`;\n"
  "  box.textContent=node.name;box.title=say(node,whole);\n"
  "  box.onclick=()=>draw(node==top&&node.above?node.above:node,whole);flame.append(box);\n"
  "  for(const b of [...node.below.values()].sort((p,q)=>q.sum-p.sum)){\n"
  "   const w=width*b.sum/node.sum;put(b,x,w,depth+1);x+=w}};\n"
  " if(top.sum)put(top,0,100,0);else flame.textContent='Nothing.';flame.style.height=(deepest+1)*17+'px'}\n"
  "function choose(k){kind=k;const t=tree();draw(t,t.sum);chosen()}\n"
  "kinds.forEach(([name],i)=>button(choice,name,()=>choose(i)));\n"
  "choice.firstChild.click();\n";

void flame_end(const char *more, FILE *page) { fprintf(page, "%s%s</script>\n", script, more); }
