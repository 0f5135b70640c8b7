using System.Text.RegularExpressions;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace BatchKit.Architecture.Tests;

/// <summary>Statements for PostgreSQL name the schema of all that they use. Otherwise a function of a stranger in <c>public</c> runs with our rights where it fits the arguments better than PostgreSQL's own.</summary>
public sealed partial class StatementTests
{
    // What the grammar of SQL has with parentheses, and is not a function.
    private static readonly HashSet<string> Syntax = new(StringComparer.Ordinal)
    {
        "and", "any", "array", "as", "by", "coalesce", "conflict", "distinct", "else", "end", "exists", "filter", "from", "greatest", "in", "join", "key", "lateral", "least", "limit", "materialized", "not", "nullif", "on",
        "or", "over", "returning", "select", "table", "then", "using", "values", "when", "where", "with",
    };

    // Types that are key words of the grammar, and so are never looked up.
    private static readonly HashSet<string> Keywords = new(StringComparer.Ordinal) { "bigint", "boolean", "double", "int", "interval", "smallint" };

    [Fact]
    public void Statements_name_the_schema_of_each_function_type_and_table()
    {
        var statements = Repository.Sources("src").Where(static file => file.Project == "BatchKit.Postgres").SelectMany(Statements).ToArray();

        Assert.True(statements.Length > 30, $"There are only {statements.Length} statements.");
        string[] unqualified = [.. statements.SelectMany(static statement => Unqualified(statement.Text).Select(name => $"{statement.Path}: {name}"))];
        Assert.True(unqualified.Length == 0, string.Join('\n', unqualified));
    }

    [Theory]
    [InlineData("select unnest($1)", "unnest(")]
    [InlineData("select pg_catalog.count(*), now() from \"s\".t", "now(")]
    [InlineData("select $1::text", "::text")]
    [InlineData("create table \"s\".t (name text not null)", "name text")]
    [InlineData("delete from messages", "from messages")]
    [InlineData("insert into messages (id) values ($1)", "into messages")]
    public void An_unqualified_name_is_found(string statement, string name) => Assert.Equal([name], Unqualified(statement));

    private static IEnumerable<(string Path, string Text)> Statements(SourceFile file) =>
        from node in file.Tree.GetRoot().DescendantNodes()
        where node is InterpolatedStringExpressionSyntax || node.IsKind(SyntaxKind.StringLiteralExpression)
        where !node.Ancestors().Any(static parent => parent is InterpolatedStringExpressionSyntax or AttributeSyntax)
        let text = node is InterpolatedStringExpressionSyntax interpolated ? TextOf(interpolated) : ((LiteralExpressionSyntax)node).Token.ValueText
        where StatementStart().IsMatch(text)
        select (file.Path, text);

    // What is interpolated is a table's qualified name, another statement or a number.
    private static string TextOf(InterpolatedStringExpressionSyntax text) =>
        string.Concat(text.Contents.Select(static part => part is InterpolatedStringTextSyntax literal ? literal.TextToken.Text : "\"interpolated\"."));

    private static IEnumerable<string> Unqualified(string statement)
    {
        var plain = QuotedText().Replace(statement, "''");
        return FunctionCall().Matches(plain).Where(static match => !Syntax.Contains(match.Groups["name"].Value)).Select(static match => match.Groups["name"].Value + "(")
            .Concat(Cast().Matches(plain).Where(static match => !Keywords.Contains(match.Groups["name"].Value)).Select(static match => match.Value))
            .Concat(Column().Matches(plain).Select(static match => match.Value))
            .Concat(Table().Matches(plain).Select(static match => match.Value));
    }

    [GeneratedRegex(@"\b(select|insert into|update|delete from|create table|create index|alter table|unnest)\b|^(case when|pg_catalog\.)|::", RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex StatementStart();

    [GeneratedRegex("'[^']*'", RegexOptions.None, 10_000)]
    private static partial Regex QuotedText();

    // Neither qualified nor the name of an alias with columns ("as u (id)") or of an INSERT's table.
    [GeneratedRegex("""(?<![\w."$}])(?<!\bas\s)(?<!\binto\s)(?<name>[a-z_]\w*) ?\(""", RegexOptions.None, 10_000)]
    private static partial Regex FunctionCall();

    [GeneratedRegex(@"::(?<name>[a-z_]\w*)(?![\w.])", RegexOptions.None, 10_000)]
    private static partial Regex Cast();

    // A column of CREATE TABLE or of ADD COLUMN whose type is no key word.
    [GeneratedRegex(@"\b\w+ (text|bytea|timestamptz|jsonb|uuid)\b(?![.=])", RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex Column();

    // The tables of this package; other names are those of common table expressions.
    [GeneratedRegex(@"\b(from|into|update|join|using) (claims|dead|messages|producers|queues|shards|unique_keys|version)\b(?!\.)", RegexOptions.ExplicitCapture, 10_000)]
    private static partial Regex Table();
}
