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
    [InlineData("output?.{|BK0006:WriteAsync|}(player, \"text\");")]
    [InlineData("_ = typed?.Buffer?.{|BK0006:FlushAsync|}();")]
    [InlineData("output.{|BK0006:FlushAsync|}(player).ConfigureAwait(false);")]
    [InlineData("output?.{|BK0006:FlushAsync|}(player).AsTask();")]
    [InlineData("_ = output.{|BK0006:WriteAsync|}(player, \"text\").AsTask();")]
    [InlineData("var scope = output.BeginBufferingScope(player); scope.{|BK0006:DisposeAsync|}();")]
    public Task A_task_that_is_thrown_away_is_reported(string call) => AnalyzerCheck.ReportsAsync<AwaitAnalyzer>(call);

    [Theory]
    [InlineData("await output.WriteAsync(player, \"text\");")]
    [InlineData("await output.FlushAsync(player).ConfigureAwait(false);")]
    [InlineData("var write = output.WriteAsync(player, \"text\"); await write;")]
    [InlineData("await Task.WhenAll(items.Select(item => output.WriteAsync(player, item).AsTask()));")]
    [InlineData("await (output?.FlushAsync() ?? default);")]
    [InlineData("output.FlushAsync(player).AsTask()?.Wait();")]
    [InlineData("output.Write(player, \"text\");")]
    [InlineData("new System.IO.MemoryStream().FlushAsync();")]
    [InlineData("output.FlushAsync(player).GetAwaiter().GetResult();")]
    [InlineData("_ = output.FlushAsync(player).AsTask().ContinueWith(task => Console.WriteLine(task.Exception));")]
    [InlineData("var scope = output.BeginBufferingScope(player); await scope.DisposeAsync();")]
    public Task A_task_that_someone_has_is_not_reported(string call) => AnalyzerCheck.ReportsAsync<AwaitAnalyzer>(call);

    [Fact]
    public Task An_extension_of_the_application_that_returns_no_task_is_not_reported() => AnalyzerCheck.ReportsInMembersAsync<AwaitAnalyzer>(
        "private void Run() => output.WriteAsync(\"text\"); } internal static class Own { public static async void WriteAsync(this IOutputBuffer output, string text) => await output.WriteAsync(default, text);");

    [Theory]
    [InlineData("output.{|BK0006:FlushAsync|}(player).ConfigureAwait(false);", "await output.FlushAsync(player).ConfigureAwait(false);")]
    [InlineData("_ = (output.{|BK0006:FlushAsync|}(player).AsTask());", "await (output.FlushAsync(player).AsTask());")]
    [InlineData("var scope = output.BeginBufferingScope(player); scope.{|BK0006:DisposeAsync|}();", "var scope = output.BeginBufferingScope(player); await scope.DisposeAsync();")]
    [InlineData("output.{|BK0006:WriteAsync|}(player, \"text\"); // Behind.", "await output.WriteAsync(player, \"text\"); // Behind.")]
    [InlineData("_ = output.{|BK0006:FlushAsync|}(player);", "await output.FlushAsync(player);")]
    public Task The_fix_awaits_the_call(string call, string awaited) => AnalyzerCheck.FixesAsync<AwaitAnalyzer, AwaitedCall>(call, awaited);

    [Theory]
    [InlineData("items.ForEach(item => output.{|BK0006:WriteAsync|}(player, item));")]
    [InlineData("using var timer = new System.Timers.Timer(); timer.Elapsed += (_, _) => output.{|BK0006:FlushAsync|}();")]
    [InlineData("_ = Task.Run(() => { void Flush() => output.{|BK0006:FlushAsync|}(); Flush(); });")]
    public Task A_fix_awaits_no_other_call_than_the_reported_one(string call) => AnalyzerCheck.FixesNothingAsync<AwaitAnalyzer, AwaitedCall>(call);

    [Theory]
    [InlineData("output?.{|BK0006:WriteAsync|}(player, \"text\");")]
    [InlineData("_ = items.Count > 0 ? output.{|BK0006:FlushAsync|}() : default;")]
    [InlineData("unsafe { output.{|BK0006:FlushAsync|}(); }")]
    [InlineData("using (new Lock().EnterScope()) { output.{|BK0006:FlushAsync|}(); }")]
    [InlineData("using var held = new Lock().EnterScope(); output.{|BK0006:FlushAsync|}();")]
    [InlineData("ref var count = ref (new int[1])[0]; output.{|BK0006:FlushAsync|}(); count = 1;")]
    [InlineData("Span<int> counts = [0]; output.{|BK0006:FlushAsync|}(); counts[0] = 1;")]
    [InlineData("foreach (var letter in items[0].AsSpan()) { output.{|BK0006:FlushAsync|}(); }")]
    public Task There_is_no_fix_that_would_not_compile(string call) => AnalyzerCheck.FixesNothingAsync<AwaitAnalyzer, AwaitedCall>(call);

    [Fact]
    public Task The_fix_awaits_in_the_block_of_an_async_lambda() => AnalyzerCheck.FixesAsync<AwaitAnalyzer, AwaitedCall>(
        "items.ForEach(async item => { output.{|BK0006:WriteAsync|}(player, item); });", "items.ForEach(async item => { await output.WriteAsync(player, item); });", isAsync: false);

    [Fact]
    public Task There_is_no_fix_where_the_method_is_not_async() =>
        AnalyzerCheck.FixesNothingAsync<AwaitAnalyzer, AwaitedCall>("output.{|BK0006:FlushAsync|}();", isAsync: false);
}
