/* SPDX-License-Identifier: Apache-2.0
 *
 * The grammar of layout files: tokens in, a syntax tree out. LALR(1) without a conflict. Constants and values
 * share one expression grammar and are told apart by resolve. Every action is one call; yyerrok after an error says
 * that the next one is news again.
 */
%define api.pure full
%define api.prefix {rsc_yy}
%define api.location.type {struct rsc_span}
%define parse.error custom
%define parse.lac full
%locations
%param {void *scanner}
%parse-param {struct rsc_parser *p}

%code requires {
#include "grammar/parser.h"
}

%code {
int rsc_yylex_token(YYSTYPE *value, YYLTYPE *span, void *scanner); /* the generated lexer */

/* A span is a place on its first line: it is as long as what stands there. */
#define YYLLOC_DEFAULT(now, rhs, n)                                                          \
  do {                                                                                       \
    if (n) {                                                                                 \
      (now) = YYRHSLOC(rhs, 1);                                                              \
      struct rsc_span end_ = YYRHSLOC(rhs, n);                                               \
      if (end_.line == (now).line) (now).len = end_.col + end_.len - (now).col;              \
    } else {                                                                                 \
      (now) = YYRHSLOC(rhs, 0);                                                              \
      (now).col += (now).len;                                                                \
      (now).len = 0;                                                                         \
    }                                                                                        \
  } while (0)

static int next_token(YYSTYPE *value, YYLTYPE *span, void *scanner, struct rsc_parser *p);
#define rsc_yylex(value, span, scanner) next_token(value, span, scanner, p)
static void rsc_yyerror(YYLTYPE *span, void *scanner, struct rsc_parser *p, const char *message);
#define NODE(kind) RSC_AST_##kind
}

%union {
  struct rsc_ast *ast;
  const struct rsc_symbol *symbol;
}

%token START_FILE "start of a file" START_EXPR "start of an expression"
%token <symbol> ID "name"
%token <symbol> PARAM "param" LET "let" DEF "def" NEED "need" ASSERT "assert" INCLUDE "include" MODEL "model"
%token <symbol> TENSOR "tensor" MESH "mesh" WORLD "world" FOR "for" IN "in" IF "if" ELSE "else" ON "on"
%token <symbol> BUFFER "buffer" SKIP "skip" PAD "pad" REPLICA "replica"
%token <ast> INT "number" DEC "decimal" TEXT "text"
%token QUOTE "string" UNQUOTE "end of the string" OPEN "{ in a string" CLOSE "} in a string"
%token HOLE "_" DOTS ".." EQ "==" NE "!=" LE "<=" GE ">=" AND "&&" OR "||"
%token END 0 "end of the file"

%type <ast> file stmts stmt pieces string name names params expr post unary args more range cond items
%type <ast> dims dim some_dims extent cuts cut axes axis pins pin pin_list rank_list ranks block otherwise buffer dtype
%type <ast> axis_name
%type <symbol> word

%right '?' ':'
%left OR
%left AND
%nonassoc EQ NE
%nonassoc '<' '>' LE GE
%left '+' '-'
%left '*' '/' '%'

%start start

%%

start
  : START_FILE file
  | START_EXPR expr { p->result = $2; }
  ;

file
  : %empty { $$ = p->result = rsc_ast_new(p, NODE(FILE), @$); } /* kept even if the parse fails */
  | file stmt { $$ = rsc_ast_append(p, $1, $2); }
  | file '}' { $$ = rsc_ast_append(p, $1, rsc_ast_stray(p, @2)); }
  ;

stmts
  : %empty { $$ = rsc_ast_new(p, NODE(BLOCK), @$); }
  | stmts stmt { $$ = rsc_ast_append(p, $1, $2); }
  ;

block
  : '{' stmts '}' { $$ = rsc_ast_block(p, @$, $2); }
  | '{' stmts error '}' { $$ = rsc_ast_block(p, @$, $2); yyerrok; }
  ;

stmt
  : PARAM name '=' expr ';' { $$ = rsc_ast_2(p, NODE(PARAM), @$, $2, $4); }
  | LET name '=' expr ';' { $$ = rsc_ast_2(p, NODE(LET), @$, $2, $4); }
  | DEF name '(' params ')' '=' expr ';' { $$ = rsc_ast_3(p, NODE(DEF), @$, $2, $4, $7); }
  | NEED names ';' { $$ = rsc_ast_turn(p, $2, NODE(NEED), @$, NULL); }
  | ASSERT expr ',' string ';' { $$ = rsc_ast_2(p, NODE(ASSERT), @$, $2, $4); }
  | INCLUDE string ';' { $$ = rsc_ast_1(p, NODE(INCLUDE), @$, $2); }
  | MODEL string ';' { $$ = rsc_ast_1(p, NODE(MODEL), @$, $2); }
  | TENSOR string dtype '[' items ']' ';' { $$ = rsc_ast_3(p, NODE(TENSOR), @$, $2, $3, $5); }
  | MESH name '[' axes ']' ';' { $$ = rsc_ast_mesh(p, @$, $2, $4, NULL, NULL); }
  | MESH name '[' axes ']' name rank_list ';' { $$ = rsc_ast_mesh(p, @$, $2, $4, $6, $7); }
  | WORLD expr ';' { $$ = rsc_ast_1(p, NODE(WORLD), @$, $2); }
  | FOR name IN range block { $$ = rsc_ast_3(p, NODE(FOR), @$, $2, $4, $5); }
  | IF expr block otherwise { $$ = rsc_ast_3(p, NODE(IF), @$, $2, $3, $4); }
  | ON name block { $$ = rsc_ast_3(p, NODE(ON), @$, $2, NULL, $3); }
  | ON name pins block { $$ = rsc_ast_3(p, NODE(ON), @$, $2, $3, $4); }
  | ON pins block { $$ = rsc_ast_3(p, NODE(ON), @$, NULL, $2, $3); }
  | buffer ';'
  | SKIP string ';' { $$ = rsc_ast_1(p, NODE(SKIP), @$, $2); }
  | error ';' { $$ = NULL; yyerrok; }
  | error block otherwise { $$ = NULL; yyerrok; }
  ;

otherwise
  : %empty { $$ = NULL; }
  | ELSE block { $$ = $2; }
  | ELSE IF expr block otherwise { $$ = rsc_ast_3(p, NODE(IF), @$, $3, $4, $5); }
  ;

buffer
  : BUFFER string { $$ = rsc_ast_3(p, NODE(BUFFER), @$, $2, NULL, NULL); }
  | BUFFER string '=' expr { $$ = rsc_ast_3(p, NODE(BUFFER), @$, $2, NULL, $4); }
  | BUFFER string dtype '=' expr { $$ = rsc_ast_3(p, NODE(BUFFER), @$, $2, $3, $5); }
  | BUFFER string '[' dims ']' {
      $$ = rsc_ast_3(p, NODE(BUFFER), @$, $2, NULL, rsc_ast_2(p, NODE(VIEW), @$, NULL, $4));
    }
  ;

name: ID { $$ = rsc_ast_name(p, @$, $1); };
dtype: ID { $$ = rsc_ast_name(p, @$, $1); };

/* Axes are looked up in their mesh only, so any word may be one. */
axis_name: word { $$ = rsc_ast_name(p, @$, $1); };
word
  : ID | PARAM | LET | DEF | NEED | ASSERT | INCLUDE | MODEL | TENSOR | MESH | WORLD | FOR | IN | IF | ELSE | ON
  | BUFFER | SKIP | PAD | REPLICA
  ;

names
  : name { $$ = rsc_ast_1(p, NODE(LIST), @$, $1); }
  | names ',' name { $$ = rsc_ast_append(p, $1, $3); }
  ;
params
  : %empty { $$ = rsc_ast_new(p, NODE(LIST), @$); }
  | names
  ;

axes
  : axis { $$ = rsc_ast_1(p, NODE(LIST), @$, $1); }
  | axes ',' axis { $$ = rsc_ast_append(p, $1, $3); }
  ;
axis: axis_name ':' expr { $$ = rsc_ast_2(p, NODE(AXIS), @$, $1, $3); };

rank_list
  : ranks { $$ = rsc_ast_1(p, NODE(LIST), @$, $1); }
  | rank_list ',' ranks { $$ = rsc_ast_append(p, $1, $3); }
  ;
ranks: range;

pins: '[' pin_list ']' { $$ = $2; };
pin_list
  : pin { $$ = rsc_ast_1(p, NODE(LIST), @$, $1); }
  | pin_list ',' pin { $$ = rsc_ast_append(p, $1, $3); }
  ;
pin: axis_name '=' expr { $$ = rsc_ast_2(p, NODE(PIN), @$, $1, $3); };

range
  : expr
  | expr DOTS expr { $$ = rsc_ast_2(p, NODE(RANGE), @$, $1, $3); }
  ;

expr
  : unary
  | expr '+' expr { $$ = rsc_ast_op(p, RSC_OP_ADD, @$, $1, $3); }
  | expr '-' expr { $$ = rsc_ast_op(p, RSC_OP_SUB, @$, $1, $3); }
  | expr '*' expr { $$ = rsc_ast_op(p, RSC_OP_MUL, @$, $1, $3); }
  | expr '/' expr { $$ = rsc_ast_op(p, RSC_OP_DIV, @$, $1, $3); }
  | expr '%' expr { $$ = rsc_ast_op(p, RSC_OP_MOD, @$, $1, $3); }
  | expr EQ expr { $$ = rsc_ast_op(p, RSC_OP_EQ, @$, $1, $3); }
  | expr NE expr { $$ = rsc_ast_op(p, RSC_OP_NE, @$, $1, $3); }
  | expr '<' expr { $$ = rsc_ast_op(p, RSC_OP_LT, @$, $1, $3); }
  | expr LE expr { $$ = rsc_ast_op(p, RSC_OP_LE, @$, $1, $3); }
  | expr '>' expr { $$ = rsc_ast_op(p, RSC_OP_GT, @$, $1, $3); }
  | expr GE expr { $$ = rsc_ast_op(p, RSC_OP_GE, @$, $1, $3); }
  | expr AND expr { $$ = rsc_ast_op(p, RSC_OP_AND, @$, $1, $3); }
  | expr OR expr { $$ = rsc_ast_op(p, RSC_OP_OR, @$, $1, $3); }
  | expr '?' expr ':' expr { $$ = rsc_ast_3(p, NODE(CHOICE), @$, $1, $3, $5); }
  ;

unary
  : post
  | '-' unary { $$ = rsc_ast_op(p, RSC_OP_NEG, @$, $2, NULL); }
  | '!' unary { $$ = rsc_ast_op(p, RSC_OP_NOT, @$, $2, NULL); }
  | REPLICA unary { $$ = rsc_ast_1(p, NODE(REPLICA), @$, $2); }
  ;

post
  : INT
  | DEC
  | string
  | name
  | '(' expr ')' { $$ = $2; }
  | '[' items ']' { $$ = rsc_ast_turn(p, $2, NODE(TABLE), @$, NULL); }
  | '[' expr FOR name IN range cond ']' { $$ = rsc_ast_4(p, NODE(COLLECT), @$, $2, $4, $6, $7); }
  | name '(' args ')' { $$ = rsc_ast_2(p, NODE(CALL), @$, $1, $3); }
  | name '(' name IN range cuts ',' expr ')' { $$ = rsc_ast_call_for(p, @$, $1, NULL, $3, $5, $6, $8); }
  | name '(' more ',' name IN range ',' expr ')' { $$ = rsc_ast_call_for(p, @$, $1, $3, $5, $7, NULL, $9); }
  | post '[' dims ']' { $$ = rsc_ast_2(p, NODE(VIEW), @$, $1, $3); }
  ;

string: QUOTE pieces UNQUOTE { $$ = rsc_ast_turn(p, $2, NODE(STRING), @$, NULL); };
pieces
  : %empty { $$ = rsc_ast_new(p, NODE(STRING), @$); }
  | pieces TEXT { $$ = rsc_ast_append(p, $1, $2); }
  | pieces OPEN expr CLOSE { $$ = rsc_ast_append(p, $1, $3); }
  ;

items
  : %empty { $$ = rsc_ast_new(p, NODE(LIST), @$); }
  | more
  ;
args: items;
more
  : expr { $$ = rsc_ast_1(p, NODE(LIST), @$, $1); }
  | more ',' expr { $$ = rsc_ast_append(p, $1, $3); }
  ;
cond
  : %empty { $$ = NULL; }
  | IF expr { $$ = $2; }
  ;

dims
  : %empty { $$ = rsc_ast_new(p, NODE(LIST), @$); }
  | some_dims
  | DOTS { $$ = rsc_ast_1(p, NODE(LIST), @$, rsc_ast_new(p, NODE(DIM_REST), @1)); }
  | some_dims ',' DOTS { $$ = rsc_ast_append(p, $1, rsc_ast_new(p, NODE(DIM_REST), @3)); }
  ;
some_dims
  : dim { $$ = rsc_ast_1(p, NODE(LIST), @$, $1); }
  | some_dims ',' dim { $$ = rsc_ast_append(p, $1, $3); }
  ;
dim
  : extent cuts { $$ = rsc_ast_3(p, NODE(DIM), @$, $1, NULL, $2); }
  | PAD '(' extent ',' expr ')' cuts { $$ = rsc_ast_3(p, NODE(DIM), @$, $3, $5, $7); }
  ;
extent
  : expr
  | HOLE { $$ = NULL; }
  ;

cuts
  : %empty { $$ = rsc_ast_new(p, NODE(LIST), @$); }
  | cuts cut { $$ = rsc_ast_append(p, $1, $2); }
  ;
cut
  : '@' axis_name { $$ = rsc_ast_2(p, NODE(CUT), @$, $2, NULL); }
  | '@' axis_name ':' post { $$ = rsc_ast_2(p, NODE(CUT), @$, $2, $4); }
  ;

%%

/* Keeps track of the last tokens, so that messages can point between them. */
static int next_token(YYSTYPE *value, YYLTYPE *span, void *scanner, struct rsc_parser *p) {
  int token = p->start;
  if (token) {
    p->start = 0;
    *span = (struct rsc_span){p->file, 1, 1, 0};
    return token;
  }
  if (p->last_token == ';' || p->last_token == '{') p->muted = false;
  token = rsc_yylex_token(value, span, scanner);
  if (token == END && p->last.len) {
    *span = p->last;
    span->col += span->len;
    span->len = 1;
  }
  p->before = p->last;
  p->before_name = p->last_name;
  p->last = *span;
  p->last_token = token;
  p->last_name = yysymbol_name(YYTRANSLATE(token));
  if (token == '{') *RSC_PUSH(p->arena, &p->braces) = *span;
  if (token == '}' && p->braces.len) p->braces.len--;
  return token;
}

static int yyreport_syntax_error(const yypcontext_t *context, void *scanner, struct rsc_parser *p) {
  (void)scanner;
  yysymbol_kind_t kinds[YYNTOKENS];
  const char *names[YYNTOKENS];
  int count = yypcontext_expected_tokens(context, kinds, YYNTOKENS);
  for (int i = 0; i < count; i++) names[i] = yysymbol_name(kinds[i]);
  yysymbol_kind_t found = yypcontext_token(context);
  rsc_syntax_error(p, *yypcontext_location(context), found == YYSYMBOL_YYEMPTY ? "" : yysymbol_name(found), names,
                   count < 0 ? 0 : count);
  return 0;
}

/* Only the parser's own trouble comes here: its stack is full. */
static void rsc_yyerror(YYLTYPE *span, void *scanner, struct rsc_parser *p, const char *message) {
  (void)scanner;
  (void)message;
  rsc_syntax_depth(p, *span);
}
