using BatchKit.Analyzers.CodeFixes;

namespace BatchKit.Analyzers.Tests;

public sealed class ScopeTests
{
    [Theory]
    [InlineData("output.{|BK0003:BeginBufferingScope|}(player);")]
    [InlineData("output.{|BK0003:BeginBufferingScope|}();")]
    [InlineData("_ = output.{|BK0003:BeginBufferingScope|}();")]
    [InlineData("var scope = output.{|BK0003:BeginBufferingScope|}(player);")]
    [InlineData("output.{|BK0003:BeginBufferingScope|}(\"room\");")]
    [InlineData("output.{|BK0003:BeginWriting|}(player);")]
    [InlineData("var lines = output.{|BK0003:BeginWriting|}(player); lines.Write(\"text\");")]
    [InlineData("output?.{|BK0003:BeginBufferingScope|}(player);")]
    [InlineData("_ = typed?.Buffer?.{|BK0003:BeginBufferingScope|}();")]
    [InlineData("output?.{|BK0003:BeginWriting|}(player);")]
    [InlineData("output.{|BK0003:BeginWriting|}(player).Write(\"text\");")]
    [InlineData("var isWritten = output?.{|BK0003:BeginWriting|}(player).TryWrite(new byte[1]);")]
    public Task A_scope_that_nothing_disposes_is_reported(string opening) => AnalyzerCheck.ReportsAsync<ScopeAnalyzer>(opening);

    [Theory]
    [InlineData("using (output.BeginBufferingScope(player)) { }")]
    [InlineData("await using (output.BeginBufferingScope()) { }")]
    [InlineData("using var scope = output.BeginBufferingScope(player);")]
    [InlineData("await using var scope = items.Count > 0 ? output.BeginBufferingScope() : default;")]
    [InlineData("using (var scope = output.BeginBufferingScope(player)) { }")]
    [InlineData("var scope = output.BeginBufferingScope(player); try { } finally { await scope.DisposeAsync(); }")]
    [InlineData("output.BeginBufferingScope(player).Dispose();")]
    [InlineData("using (output?.BeginBufferingScope(player)) { }")]
    [InlineData("await using var scope = output?.BeginBufferingScope(player);")]
    [InlineData("var scope = output?.BeginBufferingScope(player); scope?.Dispose();")]
    [InlineData("using (var lines = output.BeginWriting(player)) lines.Write(\"text\");")]
    [InlineData("var lines = output.BeginWriting(player); try { lines.Write(\"text\"); } finally { lines.Dispose(); }")]
    [InlineData("_ = output.BeginBufferingScope(player); output.EndBufferingScope(player);")]
    [InlineData("output.BeginBufferingScope(player); output.Write(player, \"text\"); output.EndBufferingScope(player);")]
    [InlineData("var scopes = items.Select(item => output.BeginBufferingScope(item)).ToList(); scopes.ForEach(scope => scope.Dispose());")]
    [InlineData("output.BeginWriting(player).Dispose();")]
    public Task A_scope_that_is_disposed_is_not_reported(string opening) => AnalyzerCheck.ReportsAsync<ScopeAnalyzer>(opening);

    [Theory]
    [InlineData("private BufferingScope _scope; private void Open() => _scope = output.{|BK0004:BeginBufferingScope|}(player);")]
    [InlineData("private BufferingScope? _scope; private void Open() { _scope = items.Count > 0 ? output.{|BK0004:BeginBufferingScope|}() : null; }")]
    [InlineData("private BufferingScope Scope { get; set; } private void Open() => Scope = output.{|BK0004:BeginBufferingScope|}(player, maxHold: null);")]
    [InlineData("private readonly BufferingScope _scope = output.{|BK0004:BeginBufferingScope|}(player);")]
    [InlineData("private BufferingScope _scope; private void Open() { var scope = output.{|BK0004:BeginBufferingScope|}(player); _scope = scope; }")]
    [InlineData("private BufferingScope? _scope; private void Open() => _scope ??= output.{|BK0004:BeginBufferingScope|}();")]
    [InlineData("private int _count; private BufferingScope _scope; private void Open() => (_count, _scope) = (1, output.{|BK0004:BeginBufferingScope|}(player));")]
    [InlineData("private readonly BufferingScope[] _scopes = new BufferingScope[1]; private void Open() => _scopes[0] = output.{|BK0004:BeginBufferingScope|}(player);")]
    [InlineData("private readonly Dictionary<string, BufferingScope> _scopes = []; private void Open() => _scopes.Add(\"\", output.{|BK0004:BeginBufferingScope|}(player));")]
    [InlineData("private readonly Dictionary<string, BufferingScope> _scopes = []; private void Open() { var scope = output.{|BK0004:BeginBufferingScope|}(player); _scopes.TryAdd(\"\", scope); }")]
    public Task A_scope_without_a_limit_in_a_field_is_reported(string members) => AnalyzerCheck.ReportsInMembersAsync<ScopeAnalyzer>(members);

    [Fact]
    public Task The_field_of_a_collection_is_named() => AnalyzerCheck.ReportsInMembersAsync<ScopeAnalyzer>(
        "private readonly Dictionary<string, BufferingScope> _scopes = []; private void Open() => _scopes[\"\"] = output.{|#0:BeginBufferingScope|}(player);", Rules.ScopeInField, "_scopes");

    [Theory]
    [InlineData("var scopes = new Dictionary<string, BufferingScope>(); scopes[\"\"] = output.BeginBufferingScope(player);")]
    [InlineData("var scopes = new List<BufferingScope>(); scopes.Add(output.BeginBufferingScope(player));")]
    [InlineData("var (count, scope) = (1, output.BeginBufferingScope(player));")]
    [InlineData("var scope = output.BeginBufferingScope(player); Current.Value = scope; try { } finally { scope.Dispose(); }")]
    [InlineData("using var scope = output.BeginBufferingScope(player); Current.Value = scope;")]
    public Task A_scope_that_its_method_disposes_or_keeps_in_a_variable_is_not_reported(string opening) =>
        AnalyzerCheck.ReportsInMembersAsync<ScopeAnalyzer>($"private static readonly AsyncLocal<BufferingScope> Current = new(); private void Run() {{ {opening} }}");

    [Fact]
    public Task A_scope_with_a_limit_may_be_kept() => AnalyzerCheck.ReportsInMembersAsync<ScopeAnalyzer>(
        "private BufferingScope _scope; private void Open() => _scope = output.BeginBufferingScope(player, TimeSpan.FromMilliseconds(50));");

    [Theory]
    [InlineData("private async Task<BufferingScope> OpenAsync() { await Task.Yield(); return output.{|BK0005:BeginBufferingScope|}(); }")]
    [InlineData("private async ValueTask<BufferingScope> OpenAsync() { var scope = output.{|BK0005:BeginBufferingScope|}(); await Task.Yield(); return scope; }")]
    [InlineData("private Func<Task<BufferingScope>> Opener() => async () => { await Task.Yield(); return output.{|BK0005:BeginBufferingScope|}(); };")]
    [InlineData("private async Task Run() { async Task<IDisposable> OpenAsync() => items.Count > 0 ? output.{|BK0005:BeginBufferingScope|}() : null; using var scope = await OpenAsync(); }")]
    public Task An_ambient_scope_that_an_async_method_returns_is_reported(string members) => AnalyzerCheck.ReportsInMembersAsync<ScopeAnalyzer>(members);

    [Theory]
    [InlineData("private async Task<BufferingScope> OpenAsync() { await Task.Yield(); return output.BeginBufferingScope(player); }")]
    [InlineData("private BufferingScope Open() => output.BeginBufferingScope();")]
    [InlineData("private Task<BufferingScope> Open() => Task.FromResult(output.BeginBufferingScope());")]
    public Task A_scope_on_a_handle_and_one_of_a_synchronous_method_may_be_returned(string members) => AnalyzerCheck.ReportsInMembersAsync<ScopeAnalyzer>(members);

    [Theory]
    [InlineData("output.{|BK0003:BeginBufferingScope|}(player);", "await using var scope = output.BeginBufferingScope(player);", true)]
    [InlineData("_ = output.{|BK0003:BeginBufferingScope|}();", "using var scope = output.BeginBufferingScope();", false)]
    [InlineData("var lines = output.{|BK0003:BeginWriting|}(player);", "using var lines = output.BeginWriting(player);", true)]
    [InlineData("var held = output.{|BK0003:BeginBufferingScope|}(player);", "await using var held = output.BeginBufferingScope(player);", true)]
    public Task The_fix_disposes_the_scope_at_the_end_of_the_block(string opening, string disposed, bool isAsync) =>
        AnalyzerCheck.FixesAsync<ScopeAnalyzer, ScopeDisposal>($"// Before.\n{opening} // Behind.\noutput.Write(player, \"\");", $"// Before.\n{disposed} // Behind.\noutput.Write(player, \"\");", isAsync);

    [Theory]
    [InlineData("output?.{|BK0003:BeginBufferingScope|}(player);", "await using var scope = output?.BeginBufferingScope(player);", true)]
    [InlineData("output?.{|BK0003:BeginBufferingScope|}(player);", "using var scope = output?.BeginBufferingScope(player);", false)]
    [InlineData("_ = items.Count > 0 ? output.{|BK0003:BeginBufferingScope|}() : default;", "await using var scope = items.Count > 0 ? output.BeginBufferingScope() : default;", true)]
    [InlineData("var lines = output.{|BK0003:BeginWriting|}(player); lines.Write(\"text\"); void Other() { }", "using var lines = output.BeginWriting(player); lines.Write(\"text\"); void Other() { }", true)]
    [InlineData("IDisposable held = output.{|BK0003:BeginBufferingScope|}(player);", "using IDisposable held = output.BeginBufferingScope(player);", true)]
    [InlineData("using var scope = new CancellationTokenSource(); output.{|BK0003:BeginBufferingScope|}(player);", "using var scope = new CancellationTokenSource(); await using var scope2 = output.BeginBufferingScope(player);", true)]
    [InlineData("output.{|BK0003:BeginBufferingScope|}(player);\n{ var scope = 1; }", "await using var scope2 = output.BeginBufferingScope(player);\n{ var scope = 1; }", true)]
    [InlineData("output.{|BK0003:BeginBufferingScope|}(player); items.ForEach(scope => { });", "await using var scope2 = output.BeginBufferingScope(player); items.ForEach(scope => { });", true)]
    public Task The_fix_compiles_beside_other_names_and_types(string opening, string disposed, bool isAsync) => AnalyzerCheck.FixesAsync<ScopeAnalyzer, ScopeDisposal>(opening, disposed, isAsync);

    [Fact]
    public Task The_fix_does_not_await_where_references_are_alive() => AnalyzerCheck.FixesAsync<ScopeAnalyzer, ScopeDisposal>(
        "using (new Lock().EnterScope()) { output.{|BK0003:BeginBufferingScope|}(player); }", "using (new Lock().EnterScope()) { using var scope = output.BeginBufferingScope(player); }");

    [Fact]
    public Task The_fix_hides_no_field() => AnalyzerCheck.FixesInMembersAsync<ScopeAnalyzer, ScopeDisposal>(
        "private readonly int scope = 1; private void Run() { output.{|BK0003:BeginBufferingScope|}(player); }",
        "private readonly int scope = 1; private void Run() { using var scope2 = output.BeginBufferingScope(player); }");

    [Fact]
    public Task The_fix_of_a_program_leaves_other_statements_their_names() => AnalyzerCheck.FixesInProgramAsync<ScopeAnalyzer, ScopeDisposal>(
        "output.{|BK0003:BeginBufferingScope|}(player);\nvar scope = 1;", "await using var scope2 = output.BeginBufferingScope(player);\nvar scope = 1;");

    [Fact]
    public Task Two_fixes_of_one_block_give_two_names() => AnalyzerCheck.FixesBothAsync<ScopeAnalyzer, ScopeDisposal>(
        "output.{|BK0003:BeginBufferingScope|}(player);\n_ = output.{|BK0003:BeginBufferingScope|}();",
        "await using var scope = output.BeginBufferingScope(player);\nawait using var scope2 = output.BeginBufferingScope();");

    [Theory]
    [InlineData("items.ForEach(_ => output.{|BK0003:BeginBufferingScope|}());")]
    [InlineData("Action open = () => output.{|BK0003:BeginBufferingScope|}(player);")]
    [InlineData("void Open() => output.{|BK0003:BeginBufferingScope|}(player);")]
    public Task The_fix_disposes_nothing_but_the_scope(string opening) => AnalyzerCheck.FixesNothingAsync<ScopeAnalyzer, ScopeDisposal>(opening);

    [Theory]
    [InlineData("output.{|BK0003:BeginWriting|}(player).Write(\"text\");")]
    [InlineData("switch (items.Count) { case 1: output.{|BK0003:BeginBufferingScope|}(player); break; }")]
    [InlineData("if (items.Count > 0) output.{|BK0003:BeginBufferingScope|}(player);")]
    [InlineData("output?.{|BK0003:BeginWriting|}(player);")]
    [InlineData("object scope = output.{|BK0003:BeginBufferingScope|}(player);")]
    [InlineData("if (items.Count > 0) goto end; output.{|BK0003:BeginBufferingScope|}(player); end: ;")]
    [InlineData("var lines = output.{|BK0003:BeginWriting|}(player); lines = default;")]
    public Task There_is_no_fix_that_would_not_compile(string opening) => AnalyzerCheck.FixesNothingAsync<ScopeAnalyzer, ScopeDisposal>(opening);
}
