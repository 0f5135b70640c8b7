using BatchKit.Analyzers.CodeFixes;

namespace BatchKit.Analyzers.Tests;

public sealed class WriteLoopTests
{
    [Theory]
    [InlineData("foreach (var item in items) output.{|BK0002:Write|}(player, item);")]
    [InlineData("foreach (var item in items) output.{|BK0002:Write|}(player, $\"{item}\\r\\n\");")]
    [InlineData("foreach (var item in items) await output.{|BK0002:WriteAsync|}(player, new byte[1]);")]
    [InlineData("foreach (var item in items) typed.{|BK0002:TryWrite|}(player, item);")]
    [InlineData("foreach (var item in items) output.{|BK0002:Write|}(OutputHandle.Named(\"mails\"), item);")]
    [InlineData("foreach (var item in items) { output.{|BK0002:Write|}(player, item); output.Write(player, item); }")]
    [InlineData("foreach (var item in items) foreach (var letter in item) output.{|BK0002:Write|}(player, $\"{letter}\");")]
    public Task A_loop_of_writes_to_one_handle_is_reported_once(string loop) => AnalyzerCheck.ReportsAsync<WriteLoopAnalyzer>(loop);

    [Theory]
    [InlineData("output.Write(player, items[0]);")]
    [InlineData("using (output.BeginBufferingScope(player)) foreach (var item in items) output.Write(player, item);")]
    [InlineData("foreach (var item in items) { output.Write(player, item); await output.FlushAsync(player); }")]
    [InlineData("foreach (var item in items) output.Write(OutputHandle.Named(item), item);")]
    [InlineData("var next = player; foreach (var item in items) { output.Write(next, item); next = OutputHandle.Named(item); }")]
    [InlineData("while (true) output.Write(player, items[0]);")]
    [InlineData("foreach (var item in items) { output.Write(player, item); await Task.Delay(1000); }")]
    [InlineData("foreach (var item in items) new OutputBufferOfEach().Output.Write(player, item);")]
    public Task A_loop_that_has_a_scope_or_needs_none_is_not_reported(string loop) =>
        AnalyzerCheck.ReportsInMembersAsync<WriteLoopAnalyzer>($"private async Task Run() {{ {loop} }} private sealed class OutputBufferOfEach {{ public IOutputBuffer Output => throw new NotSupportedException(); }}");

    [Fact]
    public Task A_method_that_is_handed_its_scope_is_not_reported() =>
        AnalyzerCheck.ReportsInMembersAsync<WriteLoopAnalyzer>("private void Run(BufferingScope scope) { foreach (var item in items) output.Write(player, item); }");

    [Fact]
    public Task The_fix_keeps_comments_and_awaits_where_it_can() => AnalyzerCheck.FixesAsync<WriteLoopAnalyzer, ScopeAroundLoop>(
        """
        // What the player carries.
        foreach (var item in items)
            output.{|BK0002:Write|}(player, item); // One line each.
        """,
        """
        // What the player carries.
        await using (output.BeginBufferingScope(player))
        {
            foreach (var item in items)
                output.Write(player, item); // One line each.
        }
        """);

    [Fact]
    public Task The_fix_opens_a_typed_outputs_scope_on_its_buffer() => AnalyzerCheck.FixesAsync<WriteLoopAnalyzer, ScopeAroundLoop>(
        """
        for (var i = 0; i < 3; i++)
            typed.{|BK0002:Write|}(player, i);
        """,
        """
        using (typed.Buffer.BeginBufferingScope(player))
        {
            for (var i = 0; i < 3; i++)
                typed.Write(player, i);
        }
        """,
        isAsync: false);

    [Fact]
    public Task The_fix_does_not_await_inside_a_lock() => AnalyzerCheck.FixesAsync<WriteLoopAnalyzer, ScopeAroundLoop>(
        """
        lock (items)
        {
            foreach (var item in items)
                output.{|BK0002:Write|}(player, item);
        }
        """,
        """
        lock (items)
        {
            using (output.BeginBufferingScope(player))
            {
                foreach (var item in items)
                    output.Write(player, item);
            }
        }
        """);
}
