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
    public Task A_scope_that_nothing_disposes_is_reported(string opening) => AnalyzerCheck.ReportsAsync<ScopeAnalyzer>(opening);

    [Theory]
    [InlineData("using (output.BeginBufferingScope(player)) { }")]
    [InlineData("await using (output.BeginBufferingScope()) { }")]
    [InlineData("using var scope = output.BeginBufferingScope(player);")]
    [InlineData("await using var scope = items.Count > 0 ? output.BeginBufferingScope() : default;")]
    [InlineData("using (var scope = output.BeginBufferingScope(player)) { }")]
    [InlineData("var scope = output.BeginBufferingScope(player); try { } finally { await scope.DisposeAsync(); }")]
    [InlineData("output.BeginBufferingScope(player).Dispose();")]
    [InlineData("using (var lines = output.BeginWriting(player)) lines.Write(\"text\");")]
    [InlineData("var lines = output.BeginWriting(player); try { lines.Write(\"text\"); } finally { lines.Dispose(); }")]
    [InlineData("_ = output.BeginBufferingScope(player); output.EndBufferingScope(player);")]
    [InlineData("var scopes = items.Select(item => output.BeginBufferingScope(item)).ToList(); scopes.ForEach(scope => scope.Dispose());")]
    public Task A_scope_that_is_disposed_is_not_reported(string opening) => AnalyzerCheck.ReportsAsync<ScopeAnalyzer>(opening);

    [Theory]
    [InlineData("private BufferingScope _scope; private void Open() => _scope = output.{|BK0004:BeginBufferingScope|}(player);")]
    [InlineData("private BufferingScope? _scope; private void Open() { _scope = items.Count > 0 ? output.{|BK0004:BeginBufferingScope|}() : null; }")]
    [InlineData("private BufferingScope Scope { get; set; } private void Open() => Scope = output.{|BK0004:BeginBufferingScope|}(player, maxHold: null);")]
    [InlineData("private readonly BufferingScope _scope = output.{|BK0004:BeginBufferingScope|}(player);")]
    public Task A_scope_without_a_limit_in_a_field_is_reported(string members) => AnalyzerCheck.ReportsInMembersAsync<ScopeAnalyzer>(members);

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
}
