namespace BatchKit.Tests;

public sealed class ControlMessageTests
{
    private static readonly string Longest = new('g', OutputHandle.MaxNameBytes);

    [Fact]
    public void A_group_that_nobody_can_write_to_is_neither_joined_nor_left()
    {
        foreach (var name in new[] { "", "room\ud83d", "room\ude00", Longest + "g", new string('€', (OutputHandle.MaxNameBytes / 3) + 1) })
        {
            Assert.Equal("name", Assert.Throws<ArgumentException>(() => OutputHandle.Named(name)).ParamName);
            Assert.Equal("group", Assert.Throws<ArgumentException>(() => ControlMessage.JoinGroup(name)).ParamName);
            Assert.Equal("group", Assert.Throws<ArgumentException>(() => ControlMessage.LeaveGroup(name)).ParamName);
        }
    }

    [Fact]
    public void Names_of_groups_cross_unchanged()
    {
        foreach (var name in new[] { "g", "room \U0001f600", Longest })
        {
            Assert.True(ControlMessage.TryRead(ControlMessage.JoinGroup(name).ToPayload(), out var join));
            Assert.True(ControlMessage.TryRead(ControlMessage.LeaveGroup(name).ToPayload(), out var leave));
            Assert.Equal((ControlOperation.JoinGroup, name), (join.Operation, join.Group));
            Assert.Equal((ControlOperation.LeaveGroup, name), (leave.Operation, leave.Group));
        }

        Assert.True(ControlMessage.TryRead(ControlMessage.Close.ToPayload(), out var close));
        Assert.Equal(ControlMessage.Close, close);
    }

    [Fact]
    public void A_name_that_is_missing_too_long_or_no_UTF_8_is_not_read()
    {
        byte[][] names = [[], [.. new byte[OutputHandle.MaxNameBytes + 1]], [0xff], [(byte)'a', 0xe2, 0x82], [0xed, 0xa0, 0x80]];

        foreach (var operation in new[] { ControlOperation.JoinGroup, ControlOperation.LeaveGroup })
            Assert.All(names, name => Assert.False(ControlMessage.TryRead([(byte)operation, .. name], out _)));
        Assert.False(ControlMessage.TryRead([(byte)ControlOperation.Close, (byte)'g'], out _));
        Assert.False(ControlMessage.TryRead([], out _));
    }
}
