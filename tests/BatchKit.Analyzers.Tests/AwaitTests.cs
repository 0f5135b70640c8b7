using BatchKit.Analyzers.CodeFixes;

namespace BatchKit.Analyzers.Tests;

public sealed class AwaitTests
{
    [Theory]
    [InlineData("output.{|BK0006:WriteAsync|}(player, \"text\");")]
    [InlineData("output.{|BK0006:WriteAsync|}(player, new byte[1]);")]
    [InlineData("_ = output.{|BK0006:WriteAsync|}(player, $\"{items}\");")]
    [InlineData("typed.{|BK0006:WriteAsync|}(player, 1);")]
    [InlineData("output.{|BK0006:FlushAsync|}();")]
    [InlineData("output.{|BK0006:FlushAsync|}(player);")]
    [InlineData("_ = output.{|BK0006:WhenSettledAsync|}(player);")]
    [InlineData("items.ForEach(item => output.{|BK0006:WriteAsync|}(player, item));")]
    public Task A_task_that_is_thrown_away_is_reported(string call) => AnalyzerCheck.ReportsAsync<AwaitAnalyzer>(call);

    [Theory]
    [InlineData("await output.WriteAsync(player, \"text\");")]
    [InlineData("await output.FlushAsync(player).ConfigureAwait(false);")]
    [InlineData("var write = output.WriteAsync(player, \"text\"); await write;")]
    [InlineData("await Task.WhenAll(items.Select(item => output.WriteAsync(player, item).AsTask()));")]
    [InlineData("output.Write(player, \"text\");")]
    [InlineData("new System.IO.MemoryStream().FlushAsync();")]
    public Task A_task_that_someone_has_is_not_reported(string call) => AnalyzerCheck.ReportsAsync<AwaitAnalyzer>(call);

    [Theory]
    [InlineData("output.{|BK0006:WriteAsync|}(player, \"text\"); // Behind.", "await output.WriteAsync(player, \"text\"); // Behind.")]
    [InlineData("_ = output.{|BK0006:FlushAsync|}(player);", "await output.FlushAsync(player);")]
    public Task The_fix_awaits_the_call(string call, string awaited) => AnalyzerCheck.FixesAsync<AwaitAnalyzer, AwaitedCall>(call, awaited);

    [Fact]
    public Task There_is_no_fix_where_the_method_is_not_async() =>
        AnalyzerCheck.FixesAsync<AwaitAnalyzer, AwaitedCall>("output.{|BK0006:FlushAsync|}();", "output.{|BK0006:FlushAsync|}();", isAsync: false);
}
