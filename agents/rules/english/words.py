"""English word lists, as regular-expression alternations and sets."""

# ruff: noqa: E501 - word lists

from __future__ import annotations

from typing import Final


def _set(words: str) -> frozenset[str]:
    return frozenset(word.strip() for word in words.split(",") if word.strip())


def _alternation(words: str) -> str:
    return "|".join(
        sorted((" ".join(word.split()) for word in words.split(",") if word.strip()), key=lambda w: (-len(w), w))
    )


NEVER_A_NAME: Final = _set(
    "not,the,a,an,so,on,in,hard,difficult,often,always,never,really,very,pretty,quite,too,just,here,there,back,new,ok,okay,"
    "fine,good,great,well,glad,happy,sad,sorry,sure,tired,bored,busy,ready,excited,nervous,curious,afraid,hungry,sick,ill,"
    "ai,i,im,it,he,she,they,we,you,what,who,nice,hello,hi,hey,thanks,thank,from,going,trying,looking,thinking,feeling,"
    "monday,tuesday,wednesday,thursday,friday,saturday,sunday,january,february,march,july,september,"
    "october,november,december,today,tomorrow,yesterday,maybe,later,anytime,crazy,old,stupid,lucky,mine,yours,also,"
    "autistic,christian,muslim,jewish,buddhist,catholic,hindu,atheist,vegan,vegetarian,unknown,private,secret,none,easy,common,rare,"
    "long,short,spelled,pronounced,written,misspelled,wrong,right,mispronounced,funny,important,irrelevant,your,my,this,that"
)
"""First words that show that "I am ..." or "my name is ..." gives no name."""

NEVER_A_PLACE: Final = _set(
    "monday,tuesday,wednesday,thursday,friday,saturday,sunday,january,february,march,april,may,june,july,august,september,"
    "october,november,december,i,christmas,easter,plan,phase,stage,level,tonight,today,tomorrow"
)
"""First words that show that "I moved to ..." names no place."""

DEMONYMS: Final = _alternation(
    "American,Argentinian,Australian,Austrian,Bangladeshi,Belgian,Brazilian,British,Bulgarian,Canadian,Chilean,Chinese,Colombian,"
    "Croatian,Cuban,Czech,Danish,Dutch,Egyptian,English,Estonian,Ethiopian,Filipino,Finnish,French,German,Ghanaian,Greek,"
    "Hungarian,Icelandic,Indian,Indonesian,Iranian,Iraqi,Irish,Israeli,Italian,Jamaican,Japanese,Kenyan,Korean,Latvian,Lebanese,"
    "Lithuanian,Malaysian,Mexican,Moroccan,Nepali,New Zealander,Nigerian,Norwegian,Pakistani,Peruvian,Polish,Portuguese,Romanian,"
    "Russian,Scottish,Serbian,Singaporean,Slovak,Slovenian,South African,Spanish,Sri Lankan,Swedish,Swiss,Taiwanese,Thai,Turkish,"
    "Ukrainian,Vietnamese,Welsh"
)

LANGUAGES: Final = _alternation(
    "Arabic,Bengali,Bulgarian,Cantonese,Catalan,Chinese,Croatian,Czech,Danish,Dutch,English,Finnish,French,German,Greek,Hebrew,"
    "Hindi,Hungarian,Indonesian,Irish,Italian,Japanese,Korean,Malay,Mandarin,Norwegian,Persian,Polish,Portuguese,Punjabi,Romanian,"
    "Russian,Serbian,Slovak,Spanish,Swahili,Swedish,Tagalog,Tamil,Thai,Turkish,Ukrainian,Urdu,Vietnamese,Welsh"
)

OCCUPATIONS: Final = _alternation(
    "accountant,actor,actress,analyst,animator,architect,artist,attorney,author,baker,banker,barber,barista,bartender,biologist,"
    "bookkeeper,bookseller,bus driver,butcher,carpenter,cashier,chef,chemist,civil servant,cleaner,clerk,coach,consultant,"
    "contractor,cook,copywriter,counsellor,counselor,dancer,data scientist,dentist,designer,developer,dietitian,director,doctor,"
    "driver,economist,editor,electrician,engineer,entrepreneur,farmer,firefighter,flight attendant,florist,founder,freelancer,"
    "gardener,geologist,guide,hairdresser,historian,illustrator,instructor,interpreter,investor,janitor,journalist,judge,"
    "lab technician,lawyer,lecturer,librarian,lifeguard,manager,marketer,mechanic,midwife,musician,nanny,nurse,nutritionist,"
    "optician,painter,paramedic,pharmacist,photographer,physicist,physiotherapist,pilot,plumber,poet,police officer,postman,"
    "potter,principal,producer,product manager,professor,programmer,psychologist,realtor,receptionist,recruiter,reporter,"
    "researcher,sailor,sales representative,salesperson,scientist,secretary,singer,social worker,soldier,statistician,"
    "surgeon,surveyor,tailor,teacher,technician,therapist,trader,trainer,translator,tutor,vet,veterinarian,waiter,waitress,"
    "welder,writer,zookeeper"
)

INDUSTRIES: Final = _alternation(
    "academia,accounting,advertising,aerospace,agriculture,architecture,banking,biotech,catering,construction,consulting,"
    "cybersecurity,e-commerce,education,energy,entertainment,fashion,film,finance,fintech,gaming,government,healthcare,"
    "hospitality,human resources,HR,information security,information technology,insurance,IT,journalism,law,logistics,"
    "manufacturing,marketing,media,nursing,pharma,pharmaceuticals,public relations,publishing,real estate,retail,sales,"
    "software,tech,telecommunications,the film industry,the music industry,tourism,transport,video games"
)

SPORTS: Final = _alternation(
    "badminton,baseball,basketball,beach volleyball,chess,cricket,darts,field hockey,floorball,football,golf,handball,hockey,"
    "ice hockey,lacrosse,padel,pickleball,ping-pong,ping pong,polo,pool,rugby,snooker,soccer,softball,squash,table tennis,"
    "tennis,ultimate frisbee,volleyball,water polo"
)

INSTRUMENTS: Final = _alternation(
    "accordion,bass,bass guitar,cello,clarinet,drums,erhu,fiddle,flute,guitar,guzheng,harmonica,harp,keyboard,mandolin,oboe,"
    "organ,piano,pipa,saxophone,trombone,trumpet,ukulele,viola,violin"
)

EXERCISES: Final = _alternation(
    "run,jog,swim,cycle,climb,work out,exercise,hike,meditate,go running,go jogging,go swimming,go cycling,go climbing,"
    "go hiking,go to the gym,go for a run,go for a swim,do yoga,do pilates,practice yoga,practise yoga,lift weights,ride my bike"
)

CONDITIONS: Final = _alternation(
    "ADHD,anemia,anxiety disorder,arthritis,asthma,back pain,bipolar disorder,celiac disease,chronic back pain,coeliac disease,"
    "Crohn's disease,depression,diabetes,dyslexia,eczema,endometriosis,epilepsy,gastritis,gout,hay fever,high blood pressure,"
    "hypertension,hypothyroidism,insomnia,IBS,migraines,multiple sclerosis,osteoporosis,PCOS,psoriasis,rheumatism,scoliosis,"
    "sleep apnea,tinnitus,type 1 diabetes,type 2 diabetes,vertigo"
)

PERSONALITIES: Final = _alternation(
    "introverted,extroverted,outgoing,shy,quiet,sociable,reserved,sensitive,optimistic,pessimistic,perfectionist,"
    "a perfectionist,an introvert,an extrovert,a morning person,a night owl,an early bird,an optimist,a pessimist,"
    "organised,organized,impatient,easygoing,easy-going,stubborn,punctual,cautious,a homebody,absent-minded"
)

RELATIVES: Final = {
    "boss": "boss", "wife": "wife", "husband": "husband", "girlfriend": "girlfriend", "boyfriend": "boyfriend",
    "partner": "partner", "fiance": "fiance", "fiancé": "fiance", "fiancee": "fiance", "fiancée": "fiance",
    "mother": "mother", "mom": "mother", "mum": "mother", "father": "father", "dad": "father",
    "son": "son", "daughter": "daughter", "sister": "sister", "brother": "brother", "twin sister": "sister",
    "twin brother": "brother", "little sister": "sister", "little brother": "brother", "older sister": "sister",
    "older brother": "brother", "younger sister": "sister", "younger brother": "brother", "big sister": "sister",
    "big brother": "brother", "grandmother": "grandmother", "grandma": "grandmother", "grandfather": "grandfather",
    "grandpa": "grandfather", "aunt": "aunt", "uncle": "uncle", "cousin": "cousin", "niece": "niece",
    "nephew": "nephew", "roommate": "roommate", "flatmate": "roommate",
}  # fmt: skip
"""Relatives whose name may follow directly ("my daughter Mia"), and the slot each belongs to."""

ACQUAINTANCES: Final = {
    "best friend": "friend", "friend": "friend", "colleague": "colleague", "coworker": "colleague",
    "co-worker": "colleague", "manager": "boss", "supervisor": "boss", "neighbour": "neighbor", "neighbor": "neighbor",
    "teacher": "teacher", "coach": "coach", "mentor": "mentor",
}  # fmt: skip
"""People whose name counts only when the sentence is about it ("my neighbour is called Tom")."""

PETS: Final = _alternation(
    "cat,kitten,dog,puppy,rabbit,bunny,hamster,guinea pig,parrot,budgie,canary,turtle,tortoise,goldfish,horse,pony,ferret,"
    "lizard,gecko,snake,golden retriever,labrador,corgi,poodle,husky,beagle,dachshund,border collie,german shepherd"
)

FAVORITES: Final = {
    "movie": "movies", "movies": "movies", "film": "movies", "films": "movies", "book": "books", "books": "books",
    "novel": "books", "author": "books", "writer": "books", "food": "foods", "dish": "foods", "meal": "foods",
    "cuisine": "foods", "fruit": "foods", "dessert": "foods", "drink": "foods", "band": "music", "song": "music",
    "singer": "music", "music": "music", "composer": "music", "album": "music", "sport": "sports", "sports": "sports",
    "hobby": "hobbies", "game": "games", "games": "games", "show": "tv_shows", "tv show": "tv_shows",
    "series": "tv_shows", "color": "favorite_color", "colour": "favorite_color", "season": "favorite_season",
    "team": "favorite_team", "animal": "animals", "flower": "flowers", "city": "places", "place": "places",
}  # fmt: skip
"""What a favourite can be of, and the sub-topic of `interest` it belongs to."""

MOODS: Final = _alternation(
    "happy,sad,tired,exhausted,stressed,stressed out,anxious,nervous,worried,angry,annoyed,frustrated,lonely,depressed,upset,"
    "excited,bored,proud,relieved,overwhelmed,disappointed,grateful,calm,relaxed,scared,afraid,confused,hopeful"
)

BELONGINGS: Final = {
    "car": "car", "house": "house", "flat": "flat", "apartment": "flat", "computer": "computer", "laptop": "computer",
    "phone": "phone", "camera": "camera", "keyboard": "keyboard", "bike": "bike", "tablet": "tablet",
    "headphones": "headphones",
}  # fmt: skip
"""Things that people name a make of, and the sub-topic of `belongings`."""

POSSESSIONS: Final = _alternation(
    "car,driver's license,driver's licence,driving licence,driving license,passport,visa,green card,mortgage,motorbike,motorcycle,"
    "bike,bicycle,boat,piano,guitar,camera,garden,house,flat,apartment,TV,dishwasher,gym membership,smartphone"
)
"""Things that "I have" is worth telling of; one also has time, questions and ideas."""

ABILITIES: Final = (
    _alternation(
        "swim,drive,cook,bake,code,program,sing,dance,draw,paint,ski,skate,snowboard,surf,dive,sail,knit,sew,juggle,whistle,type,"
        "ride a bike,ride a bicycle,ride a horse,ride a motorbike,read music,touch-type,do maths,do math"
    )
    + rf"|play (?:the )?(?:{INSTRUMENTS})|play (?:{SPORTS})|speak (?:{LANGUAGES})"
    + "|(?:code|program) in (?:Python|Java|JavaScript|Go|Rust|C\\+\\+|SQL)"
)
"""What one can or cannot do."""

PARTS_OF_TIME: Final = (
    r"(?:early |late )?in the (?:early |late )?(?:mornings?|afternoons?|evenings?)|(?:late )?at night|(?:on|at|over) (?:the )?weekends?|on (?:weekdays|workdays"
    r"|working days|mondays?|tuesdays?|wednesdays?|thursdays?|fridays?|saturdays?|sundays?|holidays)|(?:after|before|until) (?:\d{1,2}(?::\d\d)? ?(?:am|pm|a\.m\.?|p\.m\.?)?"
    r"|noon|midnight|work|lunch|dinner|breakfast)|during (?:work(?:ing hours)?|lunch|the day|meetings|the week)|first thing in the morning"
)
"""Times of the day and the week."""

TOOLS: Final = _alternation(
    "VS Code,VSCode,Visual Studio Code,Visual Studio,vim,neovim,emacs,PyCharm,IntelliJ,Sublime Text,Xcode,Jupyter,Excel,Google Sheets,"
    "Google Docs,Microsoft Word,PowerPoint,Notion,Obsidian,Evernote,OneNote,Todoist,Trello,Jira,Asana,Slack,Teams,Zoom,WhatsApp,Telegram,"
    "Signal,Gmail,Outlook,Thunderbird,Photoshop,Illustrator,Figma,Lightroom,Blender,Linux,Ubuntu,Fedora,Arch Linux,Windows,macOS,Android,"
    "Firefox,Chrome,Safari,Docker,Kubernetes,GitHub,GitLab,Spotify,Duolingo,Google Calendar,Google Maps,Python,TypeScript,JavaScript,Rust,"
    "Java,LaTeX,Markdown,bash,zsh,tmux,Postgres,PostgreSQL,Git"
)
"""Software and languages of software."""

ROUTINES: Final = (
    r"(?:get up|wake up|go to bed|go to sleep|stay up|stay up late|work late|work overtime|work on weekends|work at night|oversleep|take a nap|nap|drink (?:coffee|tea)|eat (?:breakfast|out|late)"
    r"|skip (?:breakfast|lunch)|have breakfast|order (?:in|takeout|takeaway)|walk (?:the dog|my dog|to work)|bike to work|cycle to work|drive to work|take the (?:bus|train|subway)"
    r"|meditate|read before bed|journal|write in my (?:diary|journal)|travel for work|cook at home|cook dinner|watch (?:the news|movies|tv)|wear glasses)"
)
"""What people do regularly."""

TOPICS: Final = _alternation(
    "weather,travel,trip,holiday,vacation,hotel,flight,restaurant,recipe,cooking,baking,coffee,tea,wine,beer,food,breakfast,dinner,diet,"
    "health,sleep,exercise,yoga,running,swimming,hiking,cycling,gym,movie,film,music,concert,book,novel,poetry,game,video game,podcast,"
    "photography,camera,painting,drawing,art,museum,theatre,theater,dance,fashion,shopping,gardening,plants,flowers,animals,nature,"
    "environment,politics,history,philosophy,psychology,science,physics,chemistry,biology,mathematics,math,economics,finance,"
    "investment,stocks,insurance,mortgage,rent,apartment,house,furniture,car,bicycle,train,family,children,wedding,birthday,marriage,"
    "friendship,relationship,dating,job,career,interview,salary,promotion,meeting,startup,business,marketing,programming,"
    "software,database,machine learning,artificial intelligence,data,computer,laptop,phone,internet,security,school,university,exam,"
    "homework,thesis,language,stress,anxiety,depression,meditation,religion,volunteering,pollution,energy,space,robot"
)
"""Common nouns that say what a conversation is about."""

VERBS: Final = _set(
    "bake,be,build,buy,chat,climb,collect,cook,create,cycle,dance,dive,do,draw,drink,drive,eat,explore,fish,get,give,go,hike,"
    "jog,knit,learn,listen,make,meet,paint,play,read,relax,ride,run,sail,sew,shoot,shop,sing,sit,ski,sleep,speak,spend,stay,"
    "surf,swim,take,talk,teach,try,visit,walk,watch,write"
)
"""Verbs that begin what people like to do, for the second and third after "to"."""
