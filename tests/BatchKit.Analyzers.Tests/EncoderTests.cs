namespace BatchKit.Analyzers.Tests;

public sealed class EncoderTests
{
    [Theory]
    [InlineData("output.Write(player, 8, 1, (memory, state) => { output.{|BK0007:Write|}(player, \"text\"); return 0; });")]
    [InlineData("output.TryWrite(player, 8, 1, (memory, state) => { using (output.{|BK0007:BeginBufferingScope|}(player)) return 0; });")]
    [InlineData("var scope = output.BeginBufferingScope(player); output.Write(player, 8, 1, (memory, state) => { scope.{|BK0007:Dispose|}(); return 0; });")]
    [InlineData("output.Write(player, 8, 1, (memory, state) => { default(MessageWriter).{|BK0007:EndMessage|}(); return 0; });")]
    [InlineData("output.Write(player, 8, 1, (memory, state) => { typed.{|BK0007:TryWrite|}(player, state); return 0; });")]
    [InlineData("MessageEncoder<int> encode = (memory, state) => output.{|BK0007:EndBufferingScope|}(player) ? 1 : 0;")]
    [InlineData("output.Write(player, 8, 1, Encode); int Encode(Span<byte> memory, int state) { output.{|BK0007:Write|}(player, \"text\"); return 0; }")]
    [InlineData("OutputBuffer own = null; output.Write(player, 8, own, static (memory, state) => (int)state.{|BK0007:GetStatistics|}().OpenScopes);")]
    public Task A_buffer_or_a_scope_in_an_encoder_is_reported(string write) => AnalyzerCheck.ReportsAsync<EncoderAnalyzer>(write);

    [Fact]
    public Task A_method_that_encodes_is_looked_at() => AnalyzerCheck.ReportsInMembersAsync<EncoderAnalyzer>(
        """
        private void Run() => output.Write(player, 8, this, Encode);

        private static int Encode(Span<byte> memory, Server server) => server.Typed.{|BK0007:TryWrite|}(default, 1) ? 1 : 0;

        private TypedOutput Typed => typed;
        """);

    [Theory]
    [InlineData("output.Write(player, 8, 1, Encode); output.TryWrite(player, 8, 1, Encode); int Encode(Span<byte> memory, int state) { output.{|BK0007:Write|}(player, \"text\"); return 0; }")]
    [InlineData("output.Write(player, 8, 1, (memory, state) => { output.{|BK0007:Write|}(player, 8, 1, (memory, state) => { output.{|BK0007:Write|}(player, \"text\"); return 0; }); return 0; });")]
    [InlineData("output.Write(player, 8, 1, (memory, state) => { output.{|BK0007:Write|}(player, 8, 1, Inner); return 0; int Inner(Span<byte> memory, int state) { output.{|BK0007:Write|}(player, \"text\"); return 0; } });")]
    public Task A_call_that_several_encoders_reach_is_reported_once(string write) => AnalyzerCheck.ReportsAsync<EncoderAnalyzer>(write);

    [Fact]
    public Task A_method_that_is_the_encoder_of_several_writes_is_reported_once() => AnalyzerCheck.ReportsInMembersAsync<EncoderAnalyzer>(
        """
        private void First() => output.Write(player, 8, output, Server.Encode);

        private void Second() => output.Write(player, 8, output, Encode);

        private static int Encode(Span<byte> memory, IOutputBuffer buffer) => buffer.{|BK0007:EndBufferingScope|}(default) ? 1 : 0;
        """);

    [Theory]
    [InlineData("output.Write(player, 8, items, static (memory, state) => { memory[0] = (byte)state.Count; return 1; });")]
    [InlineData("Func<int, int> other = state => { output.Write(player, \"text\"); return 0; };")]
    [InlineData("OutputBuffer own = null; output.Write(player, 8, own, static (memory, state) => { memory[0] = (byte)state.GetHealth().Status; return 1; });")]
    public Task An_encoder_that_only_writes_its_memory_is_not_reported(string write) => AnalyzerCheck.ReportsAsync<EncoderAnalyzer>(write);
}
