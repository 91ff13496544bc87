const controls=[...root.querySelectorAll('select,input')];
const pictures=[...root.querySelectorAll('.choice')];
const range=root.querySelector('input'), button=root.querySelector('button');
const places=c=>c===range?[+c.value,+c.max+1]:[c.selectedIndex,c.length];
function draw(){
  let chosen=0;
  for(const c of controls){const [place,count]=places(c);chosen=chosen*count+place;}
  pictures.forEach((one,i)=>{one.hidden=i!==chosen;});
  if(!range)return;
  const name=JSON.parse(range.dataset.names)[+range.value];
  root.querySelector('output').textContent=name;
  range.setAttribute('aria-valuetext','round '+name);
}
controls.forEach(c=>c.addEventListener('input',draw));
let timer=null;
function rest(){clearInterval(timer);timer=null;button.textContent='play';}
function step(){if(+range.value>=+range.max)return rest();range.value=+range.value+1;draw();}
if(button)button.addEventListener('click',()=>{
  if(timer)return rest();
  if(range.value===range.max){range.value=0;draw();}
  button.textContent='pause';
  timer=setInterval(step,350);
});
draw();
