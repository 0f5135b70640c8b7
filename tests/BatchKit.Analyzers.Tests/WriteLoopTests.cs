using BatchKit.Analyzers.CodeFixes;

namespace BatchKit.Analyzers.Tests;

public sealed class WriteLoopTests
{
    private const string Heroes = """
        private sealed class Hero(OutputHandle handle, IOutputBuffer output)
        {
            public OutputHandle Handle => handle;
            public OutputHandle Own { get; } = handle;
            public IOutputBuffer Output => output;
            public List<string> Items { get; } = [];
            public bool IsAlive { get; set; }
            public string Tell(string text) => text;
        }

        private IOutputBuffer Output => output;

        private IOutputBuffer Opened => output ?? throw new InvalidOperationException();

        private bool IsOpen => output is not null;

        private static bool IsThere(Hero hero) => hero is not null;
        """;

    [Theory]
    [InlineData("foreach (var item in items) output.{|BK0002:Write|}(player, item);")]
    [InlineData("foreach (var item in items) output.{|BK0002:Write|}(player, $\"{item}\\r\\n\");")]
    [InlineData("foreach (var item in items) await output.{|BK0002:WriteAsync|}(player, new byte[1]);")]
    [InlineData("foreach (var item in items) typed.{|BK0002:TryWrite|}(player, item);")]
    [InlineData("foreach (var item in items) output.{|BK0002:Write|}(OutputHandle.Named(\"mails\"), item);")]
    [InlineData("foreach (var item in items) { output.{|BK0002:Write|}(player, item); output.Write(player, item); }")]
    [InlineData("foreach (var item in items) foreach (var letter in item) output.{|BK0002:Write|}(player, $\"{letter}\");")]
    [InlineData("foreach (var item in System.IO.File.ReadAllLines(items[0])) output.{|BK0002:Write|}(player, item);")]
    [InlineData("foreach (var item in items) output.{|BK0002:Write|}(player, System.IO.File.ReadAllText(item));")]
    [InlineData("foreach (var item in items) await output.{|BK0002:WriteAsync|}(player, item).ConfigureAwait(false);")]
    [InlineData("foreach (var item in items) if (!output.{|BK0002:TryWrite|}(player, item)) break;")]
    [InlineData("var pair = KeyValuePair.Create(player, 1); foreach (var item in items) { pair.ToString(); output.{|BK0002:Write|}(pair.Key, item); }")]
    [InlineData("var isFull = false; for (var i = 0; i < items.Count && !isFull; i++) { isFull = !output.{|BK0002:TryWrite|}(player, items[i]); }")]
    public Task A_loop_of_writes_to_one_handle_is_reported_once(string loop) => AnalyzerCheck.ReportsAsync<WriteLoopAnalyzer>(loop);

    [Theory]
    [InlineData("output.Write(player, items[0]);")]
    [InlineData("using (output.BeginBufferingScope(player)) foreach (var item in items) output.Write(player, item);")]
    [InlineData("foreach (var item in items) { output.Write(player, item); await output.FlushAsync(player); }")]
    [InlineData("foreach (var item in items) output.Write(OutputHandle.Named(item), item);")]
    [InlineData("foreach (var item in items) { output.Write(player, item); output.Write(OutputHandle.Named(\"all\"), item); }")]
    [InlineData("foreach (var item in items) { output.Write(player, item); foreach (var name in queue) output.Write(OutputHandle.Named(name), item); }")]
    [InlineData("var next = player; foreach (var item in items) { output.Write(next, item); next = OutputHandle.Named(item); }")]
    [InlineData("while (true) output.Write(player, items[0]);")]
    [InlineData("foreach (var item in items) { output.Write(player, item); await Task.Delay(1000); }")]
    [InlineData("foreach (var item in items) new OutputBufferOfEach().Output.Write(player, item);")]
    [InlineData("for (var i = 0; i < 3; i++) if (output.TryWrite(player, items[0])) break;")]
    [InlineData("for (var i = 0; i < 3; i++) { var isWritten = output.TryWrite(player, items[0]); if (isWritten) { queue.Clear(); return; } }")]
    [InlineData("var isWritten = false; for (var i = 0; i < 3 && !isWritten; i++) isWritten = output.TryWrite(player, items[0]);")]
    public Task A_loop_that_has_a_scope_or_needs_none_is_not_reported(string loop) =>
        AnalyzerCheck.ReportsInMembersAsync<WriteLoopAnalyzer>($"private async Task Run() {{ {loop} }} private sealed class OutputBufferOfEach {{ public IOutputBuffer Output => throw new NotSupportedException(); }}");

    [Theory]
    [InlineData("for (var i = 0; i < 3; i++) { output.Write(player, \"Password: \"); if (await Console.In.ReadLineAsync() == items[0]) break; }")]
    [InlineData("foreach (var item in items) { output.Write(player, item); if (Console.ReadLine() == \"stop\") break; }")]
    [InlineData("foreach (var item in items) { output.Write(player, item); new SemaphoreSlim(0).Wait(); }")]
    [InlineData("foreach (var item in items) { output.Write(player, item); var length = Task.FromResult(1).Result; }")]
    [InlineData("foreach (var item in items) { output.Write(player, item); await bus.Publish(item).ConfigureAwait(false); }")]
    [InlineData("foreach (var item in items) { output.Write(player, item); await using var timer = new Timer(_ => { }); }")]
    [InlineData("foreach (var item in items) { output.Write(player, item); await foreach (var answer in items.ToAsyncEnumerable()) { } }")]
    public Task A_loop_that_waits_for_an_answer_or_for_work_is_not_reported(string loop) => AnalyzerCheck.ReportsAsync<WriteLoopAnalyzer>(loop);

    [Theory]
    [InlineData("private IEnumerable<string> Run() { foreach (var item in items) { output.Write(player, item); yield return item; } }")]
    [InlineData("private async IAsyncEnumerable<string> Run() { foreach (var item in items) { await output.WriteAsync(player, item); yield return item; } }")]
    public Task A_loop_that_hands_its_items_on_is_not_reported(string members) => AnalyzerCheck.ReportsInMembersAsync<WriteLoopAnalyzer>(members);

    [Theory]
    [InlineData("private void Run() { var next = player; void Turn() => next = OutputHandle.Named(\"next\"); foreach (var item in items) { output.Write(next, item); Turn(); } }")]
    [InlineData("private OutputHandle Next { get; set; } private void Run() { foreach (var item in items) { output.Write(Next, item); Next = OutputHandle.Named(item); } }")]
    [InlineData("private void Run(IEnumerator<OutputHandle> players) { while (players.MoveNext()) output.Write(players.Current, \"x\"); }")]
    [InlineData("private void Run(System.Data.IDataReader rows) { while (rows.Read()) output.Write(OutputHandle.Named((string)rows[\"name\"]), \"x\"); }")]
    [InlineData("private void Run((OutputHandle, string)[] pairs) { OutputHandle next; string text; for (var i = 0; i < pairs.Length; i++) { (next, text) = pairs[i]; output.Write(next, text); } }")]
    [InlineData("private sealed record Hero(OutputHandle Handle); private void Run(Hero? hero) { foreach (var item in items) { if (hero is null) break; output.Write(hero.Handle, item); } }")]
    [InlineData("private OutputHandle _next; private void Turn() => _next = player; private void Run() { foreach (var item in items) { output.Write(_next, item); Turn(); } }")]
    [InlineData("private OutputHandle _next; private OutputHandle Next => _next; private void Turn() => _next = player; private void Run() { foreach (var item in items) { output.Write(Next, item); Turn(); } }")]
    [InlineData("private void Turn() => player = OutputHandle.Named(\"next\"); private void Run() { foreach (var item in items) { output.Write(player, item); Turn(); } }")]
    [InlineData("private int _turn; private OutputHandle Next => OutputHandle.Named(items[_turn++]); private void Run() { foreach (var item in items) output.Write(Next, item); }")]
    [InlineData("private sealed class Hero(OutputHandle handle) { public OutputHandle Handle { get; private set; } = handle; public void Turn() => Handle = default; } private void Run(Hero hero) { foreach (var item in items) { output.Write(hero.Handle, item); hero.Turn(); } }")]
    public Task A_loop_whose_handle_changes_is_not_reported(string members) => AnalyzerCheck.ReportsInMembersAsync<WriteLoopAnalyzer>(members);

    [Theory]
    [InlineData("foreach (var item in items) if (output is not null) output.Write(player, item);")]
    [InlineData("foreach (var item in items) { if (this.Output == null) continue; Output.Write(player, item); }")]
    [InlineData("foreach (var item in items) if ((object)output != null) output.Write(player, item);")]
    [InlineData("foreach (var item in items) if (target.HasValue) output.Write(target.Value, item);")]
    [InlineData("foreach (var item in items) if (target is not null) output.Write((OutputHandle)target, item);")]
    [InlineData("foreach (var item in items) if (player != default) output.Write(player, item);")]
    [InlineData("foreach (var item in items) if (!player.IsNone) output.Write(player, item);")]
    [InlineData("foreach (var item in items) if (player is { IsNone: false }) output.Write(player, item);")]
    [InlineData("foreach (var item in hero?.Items ?? []) output.Write(hero.Handle, item);")]
    [InlineData("foreach (var item in items) if (hero?.IsAlive == true) output.Write(hero.Handle, item);")]
    [InlineData("foreach (var item in items) if (hero?.Output is { } own) hero.Output.Write(player, item);")]
    [InlineData("foreach (var item in items) if (IsThere(hero)) output.Write(hero.Handle, item);")]
    [InlineData("foreach (var item in items) if (!ReferenceEquals(hero, null)) output.Write(hero.Handle, item);")]
    [InlineData("foreach (var item in items) switch (hero) { case null: break; default: output.Write(hero.Handle, item); break; }")]
    [InlineData("foreach (var item in items) if (!string.IsNullOrEmpty(room)) output.Write(OutputHandle.Named(room), item);")]
    [InlineData("foreach (var item in items) if (room.Length > 0) output.Write(OutputHandle.Named(room), item);")]
    [InlineData("foreach (var item in items) if (IsOpen) Opened.Write(player, item);")]
    [InlineData("foreach (var item in items) if (number > 0) output.Write(OutputHandle.Connection(number), item);")]
    public Task A_loop_that_asks_whether_its_handle_or_buffer_is_there_is_not_reported(string loop) => AnalyzerCheck.ReportsInMembersAsync<WriteLoopAnalyzer>(
        $"{Heroes} private void Run(Hero hero, OutputHandle? target, string room, long number) {{ {loop} }}");

    [Theory]
    [InlineData("foreach (var item in items) output.{|BK0002:Write|}(hero.Handle, hero.Tell(item));")]
    [InlineData("foreach (var item in items) if (hero.IsAlive) output.{|BK0002:Write|}(hero.Handle, item);")]
    [InlineData("foreach (var item in hero.Items) output.{|BK0002:Write|}(hero.Own, item);")]
    [InlineData("foreach (var item in items) if (player != hero.Handle) output.{|BK0002:Write|}(player, item);")]
    [InlineData("foreach (var item in items) if (!output.{|BK0002:TryWrite|}(hero.Handle, hero.Tell(item))) break;")]
    [InlineData("foreach (var item in items) if (!typed.{|BK0002:TryWrite|}(hero.Handle, hero)) break;")]
    [InlineData("foreach (var item in items) output.{|BK0002:Write|}(OutputHandle.Named(room), $\"{room}: {item}\");")]
    [InlineData("foreach (var item in items) { output.{|BK0002:Write|}(_last, item); Count(); }")]
    [InlineData("if (hero is null) return; foreach (var item in items) output.{|BK0002:Write|}(hero.Handle, item);")]
    public Task A_loop_that_asks_or_changes_something_else_is_reported(string loop) => AnalyzerCheck.ReportsInMembersAsync<WriteLoopAnalyzer>(
        $"{Heroes} private OutputHandle _last; private int _count; private void Count() => _count++; private void Run(Hero hero, string room) {{ {loop} }}");

    [Fact]
    public Task A_method_that_is_handed_its_scope_is_not_reported() =>
        AnalyzerCheck.ReportsInMembersAsync<WriteLoopAnalyzer>("private void Run(BufferingScope scope) { foreach (var item in items) output.Write(player, item); }");

    [Theory]
    [InlineData("public void Run() { using var scope = output.BeginBufferingScope(); Tell(); } private void Tell() { foreach (var item in items) output.Write(player, item); }")]
    [InlineData("public void Run() { using var lines = output.BeginWriting(player); Tell(3); } private void Tell(int left) { if (left > 0) Tell(left - 1); foreach (var item in items) output.Write(player, item); }")]
    [InlineData("public void Run() { using var scope = output.BeginBufferingScope(); List(); } private void List() => Tell(); private void Tell() { foreach (var item in items) output.Write(player, item); }")]
    public Task A_private_method_that_is_only_called_in_scopes_is_not_reported(string members) => AnalyzerCheck.ReportsInMembersAsync<WriteLoopAnalyzer>(members);

    [Theory]
    [InlineData("public void Run() { using var scope = output.BeginBufferingScope(); Tell(); } public void Tell() { foreach (var item in items) output.{|BK0002:Write|}(player, item); }")]
    [InlineData("private void Tell() { foreach (var item in items) output.{|BK0002:Write|}(player, item); }")]
    [InlineData("private void Tell(int left) { foreach (var item in items) output.{|BK0002:Write|}(player, item); Tell(left - 1); }")]
    [InlineData("public void Run() { using var scope = output.BeginBufferingScope(); Tell(); } public void Look() => Tell(); private void Tell() { foreach (var item in items) output.{|BK0002:Write|}(player, item); }")]
    public Task A_method_that_is_also_called_outside_scopes_is_reported(string members) => AnalyzerCheck.ReportsInMembersAsync<WriteLoopAnalyzer>(members);

    [Theory]
    [InlineData("ClientConnection connection", "output.Write(connection.Handle, item);")]
    [InlineData("OutputHandle connection", "output.Write(connection, item);")]
    [InlineData("ClientConnection connection", "output.{|BK0002:Write|}(OutputHandle.Named(\"all\"), item);")]
    public Task Replies_to_the_own_connection_need_no_scope(string parameter, string write) => AnalyzerCheck.ReportsInMembersAsync<WriteLoopAnalyzer>($$"""
        private sealed class Player({{parameter}}, IOutputBuffer output, List<string> items) : IConnectionHandler
        {
            public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
            {
                Tell();
                return default;
            }

            private void Tell()
            {
                foreach (var item in items)
                    {{write}}
            }
        }
        """);

    [Fact]
    public Task What_is_written_before_a_connection_receives_needs_a_scope() => AnalyzerCheck.ReportsInMembersAsync<WriteLoopAnalyzer>("""
        private sealed class Player(ClientConnection connection, IOutputBuffer output, List<string> items) : IConnectionHandler
        {
            public ValueTask StartAsync(CancellationToken cancellationToken)
            {
                foreach (var item in items)
                    output.{|BK0002:Write|}(connection.Handle, item);
                return default;
            }

            public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken) => default;
        }
        """);

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

    [Theory]
    [InlineData("using (new Lock().EnterScope())\n{", "\n}")]
    [InlineData("Span<int> counts = [0];\n{", "\n}\ncounts[0] = 1;")]
    [InlineData("ref var count = ref (new int[1])[0];\n{", "\n}\ncount = 1;")]
    public Task The_fix_does_not_await_where_references_are_alive(string before, string behind) => AnalyzerCheck.FixesAsync<WriteLoopAnalyzer, ScopeAroundLoop>(
        $"{before}\n    foreach (var item in items)\n        output.{{|BK0002:Write|}}(player, item);{behind}",
        $"{before}\n    using (output.BeginBufferingScope(player))\n    {{\n        foreach (var item in items)\n            output.Write(player, item);\n    }}{behind}");

    [Theory]
    [InlineData("if (items.Count > 0)\n    items.Sort();\nelse", "\n    ", "")]
    [InlineData("switch (items.Count)\n{\n    case 1:", "\n        ", "\n        break;\n}")]
    [InlineData("again:", "\n", "\nif (items.Count > 0)\n    goto again;")]
    public Task The_fix_wraps_a_loop_wherever_it_stands(string before, string indent, string behind) => AnalyzerCheck.FixesAsync<WriteLoopAnalyzer, ScopeAroundLoop>(
        $"{before}{indent}foreach (var item in items){indent}    output.{{|BK0002:Write|}}(player, item);{behind}",
        $"{before}{indent}using (output.BeginBufferingScope(player)){indent}{{{indent}    foreach (var item in items){indent}        output.Write(player, item);{indent}}}{behind}",
        isAsync: false);

    [Fact]
    public Task The_fix_opens_the_scope_on_the_cast_buffer() => AnalyzerCheck.FixesAsync<WriteLoopAnalyzer, ScopeAroundLoop>(
        """
        object any = output;
        foreach (var item in items)
            ((IOutputBuffer)any).{|BK0002:Write|}(player, item);
        """,
        """
        object any = output;
        using (((IOutputBuffer)any).BeginBufferingScope(player))
        {
            foreach (var item in items)
                ((IOutputBuffer)any).Write(player, item);
        }
        """,
        isAsync: false);

    [Fact]
    public Task The_fix_leaves_the_compiler_its_word_that_there_is_a_buffer() => AnalyzerCheck.FixesAsync<WriteLoopAnalyzer, ScopeAroundLoop>(
        """
        foreach (var item in items)
            output!.{|BK0002:Write|}(player, item);
        """,
        """
        using (output!.BeginBufferingScope(player))
        {
            foreach (var item in items)
                output!.Write(player, item);
        }
        """,
        isAsync: false);

    [Fact]
    public Task There_is_no_fix_that_a_directive_would_cut_in_two() => AnalyzerCheck.FixesNothingAsync<WriteLoopAnalyzer, ScopeAroundLoop>(
        """
        foreach (var item in items)
        #line 1
            output.{|BK0002:Write|}(player, item);
        #line default
        """);

    [Fact]
    public Task There_is_no_fix_where_the_buffer_has_no_name()
    {
        const string Members = "private interface IOwn : IOutputBuffer { public void Run(List<string> items, OutputHandle player) { foreach (var item in items) {|BK0002:Write|}(player, default(ReadOnlySpan<byte>)); } }";

        return AnalyzerCheck.FixesInMembersAsync<WriteLoopAnalyzer, ScopeAroundLoop>(Members, Members);
    }
}
