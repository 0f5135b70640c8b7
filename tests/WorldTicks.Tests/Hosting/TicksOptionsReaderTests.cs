using Shared;
using WorldTicks.Hosting;

namespace WorldTicks.Tests.Hosting;

public sealed class TicksOptionsReaderTests
{
    [Theory]
    [InlineData(TicksRole.Both)]
    [InlineData(TicksRole.World, "world")]
    [InlineData(TicksRole.Worker, "worker")]
    [InlineData(TicksRole.Both, "--npcs", "3")]
    internal void The_first_word_is_the_command_and_none_means_both(TicksRole expected, params string[] arguments) =>
        Assert.Equal(expected, Read(arguments).Role);

    [Theory]
    [InlineData(true, "--plain")]
    [InlineData(true, "worker", "--plain", "--batch", "7")]
    [InlineData(true, "--plain=on", "world")]
    [InlineData(false, "--plain=off")]
    [InlineData(false)]
    public void A_switch_needs_no_value(bool isPlain, params string[] arguments) => Assert.Equal(isPlain, Read(arguments).IsPlain);

    [Fact]
    public void The_command_line_wins_over_the_environment()
    {
        var options = TicksOptionsReader.Read(["worker", "--batch=7"], name => name switch
        {
            "WORLDTICKS_BATCH" => "8",
            "WORLDTICKS_CONCURRENCY" => "9",
            _ => null,
        });

        Assert.Equal(7, options.BatchSize);
        Assert.Equal(9, options.Concurrency);
    }

    [Fact]
    public void What_the_environment_says_for_another_command_is_left_alone()
    {
        var options = TicksOptionsReader.Read(["worker"], name => name == "WORLDTICKS_TICK" ? "nonsense" : null);

        Assert.Equal(TicksRole.Worker, options.Role);
    }

    [Theory]
    [InlineData("'play'", "play")]
    [InlineData("'--nps'", "world", "--nps", "3")]
    [InlineData("--npcs is not for a worker", "worker", "--npcs", "3")]
    [InlineData("--concurrency is not for a world", "world", "--concurrency", "3")]
    [InlineData("--npcs is not for a worker", "--npcs", "3", "worker")]
    [InlineData("'--tick'", "world", "--tick")]
    [InlineData("--tick takes a number from 10 to 60000, and \"--npcs\" is not.", "world", "--tick", "--npcs")]
    [InlineData("--plain takes on or off, and \"perhaps\" is not.", "--plain=perhaps")]
    [InlineData("--tick takes a number from 10 to 60000, and \"9\" is not.", "world", "--tick", "9")]
    [InlineData("'--npcs'", "--npcs", "3", "--npcs", "4")]
    [InlineData("--schema takes a name of 1 to 63 bytes", "--schema", "a-name-that-is-longer-than-an-identifier-of-postgresql-may-ever-be")]
    [InlineData("--connection takes a connection string", "--connection", "postgres://game:secret@localhost")]
    [InlineData("--connection takes a connection string", "--connection", "Username=game;Password=secret")]
    public void What_is_wrong_is_named_without_secrets(string expected, params string[] arguments)
    {
        var exception = Assert.Throws<UsageException>(() => Read(arguments));

        Assert.Contains(expected, exception.Message, StringComparison.Ordinal);
        Assert.DoesNotContain("secret", exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void The_help_names_each_setting() =>
        Assert.All(TicksSettings.All, setting => Assert.Contains($"  {setting.Argument} ", TicksHelp.Text, StringComparison.Ordinal));

    private static TicksOptions Read(string[] arguments) => TicksOptionsReader.Read(arguments, static _ => null);
}
